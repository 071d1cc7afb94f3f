// Service books paid invoices of Stripe: a Go program that embeds Oncegate.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate"
)

// config is the same in the service and in its tests, but for the secret.
func config(database string, secret oncegate.Secret) oncegate.Config {
	return oncegate.Config{
		DatabaseURL: database, Migrate: true,
		Sources: []oncegate.Source{{
			Name: "stripe", Secrets: []oncegate.Secret{secret},
			Routes: []oncegate.Route{{Name: "ledger", Types: []string{"invoice.paid"}}},
		}},
	}
}

// createTables creates the table of the service. The service's own migrations would do this.
func createTables(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS books; CREATE TABLE IF NOT EXISTS books.ledger (event text, customer text, amount bigint)`)
	return err
}

var errNoCustomer = errors.New("the invoice has no customer")

// book writes one row, in the transaction that records that it ran. So it needs no check for repeated deliveries.
func book(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
	var event struct {
		Data struct {
			Object struct {
				Customer string `json:"customer"`
				Amount   int64  `json:"amount_paid"`
			} `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(e.Body, &event); err != nil {
		return oncegate.Permanent(errors.New("the body is not an invoice"))
	}
	invoice := event.Data.Object
	if invoice.Customer == "" {
		return oncegate.Permanent(errNoCustomer) // a dead letter, at once: no retry would help
	}
	_, err := tx.Exec(ctx, `INSERT INTO books.ledger (event, customer, amount) VALUES ($1, $2, $3)`, e.EventID, invoice.Customer, invoice.Amount)
	return err // an error of the database is retried, if a retry can help
}

// handler serves the deliveries together with the service's own pages.
func handler(og *oncegate.Inbox) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/in/", og.Handler())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "the bookshop") })
	return mux
}

func run(ctx context.Context) error {
	database := os.Getenv("DATABASE_URL")
	if err := createTables(ctx, database); err != nil {
		return err
	}
	og, err := oncegate.Open(ctx, config(database, oncegate.Env("STRIPE_WEBHOOK_SECRET")))
	if err != nil {
		return err
	}
	_ = og.Handle("ledger", book) // Run returns its error, too
	server := &http.Server{Addr: os.Getenv("LISTEN"), Handler: handler(og), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 75 * time.Second, WriteTimeout: 75 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.WithoutCancel(ctx))
	}()
	if err := og.Run(ctx); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
