package oncegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// shop is the service of the examples: a table shop.ledger in the test database.
type shop struct {
	ctx      context.Context //nolint:containedctx // the life of an example
	end      context.CancelFunc
	database string
	conn     *pgx.Conn
	created  time.Time // of its events: a sender delivers the same body again
	running  sync.WaitGroup
	failed   error
}

var exampleSchemas = []string{"shop", "example_net_http", "example_echo", "example_handler", "example_emit", "example_replay"}

// openShop creates the shop. Examples run one after another.
func openShop() *shop {
	s := &shop{database: os.Getenv("TEST_DATABASE_URL"), created: time.Now()}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.running.Add(1)
	var err error
	if s.conn, err = pgx.Connect(s.ctx, s.database); err != nil {
		panic("TEST_DATABASE_URL: " + err.Error())
	}
	s.clear()
	s.exec(`CREATE SCHEMA shop; CREATE TABLE shop.ledger (event text NOT NULL, at timestamptz NOT NULL DEFAULT now())`)
	return s
}

func (s *shop) exec(statements string) {
	if _, err := s.conn.Exec(context.Background(), statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		panic(err)
	}
}

func (s *shop) clear() {
	s.exec(`SET client_min_messages TO warning`)
	for _, schema := range exampleSchemas {
		s.exec(`DROP SCHEMA IF EXISTS ` + schema + ` CASCADE`)
	}
}

// watch stores the error that Run returned.
func (s *shop) watch(err error) {
	s.failed = err
	s.running.Done()
}

// close stops the service and prints its error.
func (s *shop) close() {
	s.end()
	s.running.Wait()
	if s.failed != nil {
		fmt.Fprintln(os.Stdout, "failed:", s.failed)
	}
	s.clear()
	if err := s.conn.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stdout, err)
	}
}

// deliver sends a signed event until the service accepts it, as senders do.
func (s *shop) deliver(service http.Handler, id string) string {
	for deadline := time.Now().Add(limit); ; {
		now := time.Now()
		body := fmt.Sprintf(`{"id":%q,"object":"event","created":%d,"type":"invoice.paid"}`, id, s.created.Unix())
		request := httptest.NewRequestWithContext(s.ctx, http.MethodPost, "/in/stripe", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Stripe-Signature", rig.StripeSignature("whsec_example", now, []byte(body)))
		answer := httptest.NewRecorder()
		service.ServeHTTP(answer, request)
		if answer.Code == http.StatusOK {
			var said struct{ Status string }
			if err := json.Unmarshal(answer.Body.Bytes(), &said); err != nil {
				return err.Error()
			}
			return fmt.Sprint(answer.Code, " ", said.Status)
		}
		if now.After(deadline) {
			return fmt.Sprint("not taken: ", answer.Code)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// booked waits until the ledger has the wanted number of rows, and returns the number of rows.
func (s *shop) booked(want int) (rows int) {
	for deadline := time.Now().Add(limit); ; {
		err := s.conn.QueryRow(s.ctx, `SELECT count(*) FROM shop.ledger`).Scan(&rows)
		if rows >= want || err != nil || time.Now().After(deadline) {
			if err != nil && !errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stdout, err)
			}
			return rows
		}
		<-time.After(10 * time.Millisecond)
	}
}
