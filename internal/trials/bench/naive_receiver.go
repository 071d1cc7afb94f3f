package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

// naive is the receiver that one would write first: a transaction for each delivery, and River's InsertTx for each
// effect. It writes the same rows into the same tables as the gate, with the same HTTP server and verification. It
// exists only for comparison.
type naive struct {
	pool  *pgxpool.Pool
	river *river.Client[pgx.Tx]
}

// wake has the shape of the jobs that the gate inserts.
type wake struct {
	Effect inbox.ID `json:"effect"`
}

// Kind implements [river.JobArgs].
func (wake) Kind() string { return string(inbox.WakeEffect) }

const naiveInsertEvent = `
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, occurred_at, received_at, admission, class, body_id,
    item, body_offset, body_length, id_unsigned, suspected_replay)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'ok', $8, $9, $10, $11, $12, false, false)
ON CONFLICT ON CONSTRAINT inbox_event_key DO NOTHING`

const naiveBump = `
UPDATE inbox_event SET deliveries = deliveries + 1, last_delivery_at = now()
WHERE source_id = $1 AND event_id = $2 RETURNING id, body_sha256`

const naiveInsertBody = `INSERT INTO inbox_body (class, id, headers, body) VALUES ($1, $2, $3, $4)`

const naiveInsertEffect = `
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, job_id, state, next_at)
VALUES ($1, $2, $3, $4, $5, $6, 'pending', now())`

// Accept implements [receiver.Accepter].
func (n *naive) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	receipt := inbox.Receipt{Items: make([]inbox.ItemReceipt, len(a.Events))}
	ctx = context.WithoutCancel(ctx)
	err := pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		bodyID, stored := inbox.NewID(a.ReceivedAt), false
		for i := range a.Events {
			fresh, err := n.admit(ctx, tx, a, i, bodyID, &receipt.Items[i])
			if err != nil {
				return err
			}
			if fresh && !stored {
				if _, err := tx.Exec(ctx, naiveInsertBody, a.Source.Class, bodyID, a.Headers, a.Body); err != nil {
					return err
				}
				stored = true
			}
		}
		return nil
	})
	if err != nil {
		return inbox.Receipt{}, fmt.Errorf("%w: %w", gate.ErrUnavailable, err)
	}
	return receipt, nil
}

func (n *naive) admit(ctx context.Context, tx pgx.Tx, a *inbox.Admission, i int, bodyID inbox.ID, out *inbox.ItemReceipt) (fresh bool, err error) {
	event := &a.Events[i]
	sha := sha256.Sum256(a.Body[event.Offset : event.Offset+event.Length])
	id := inbox.NewID(a.ReceivedAt)
	tag, err := tx.Exec(ctx, naiveInsertEvent, id, a.Source.ID, event.EventID, event.Type, sha[:], event.OccurredAt, a.ReceivedAt,
		a.Source.Class, bodyID, i, event.Offset, event.Length)
	if err != nil {
		return false, err
	}
	if tag.RowsAffected() == 0 {
		out.Outcome = inbox.Duplicate
		var first []byte
		if err := tx.QueryRow(ctx, naiveBump, a.Source.ID, event.EventID).Scan(&out.ID, &first); err != nil {
			return false, err
		}
		if string(first) != string(sha[:]) {
			out.Outcome = inbox.Conflict
		}
		return false, nil
	}
	out.ID, out.Outcome = id, inbox.Recorded
	for r := range a.Source.Routes {
		route := &a.Source.Routes[r]
		if !route.Matches(event.Type) {
			continue
		}
		effect := inbox.NewID(a.ReceivedAt)
		job, err := n.river.InsertTx(ctx, tx, wake{Effect: effect}, nil)
		if err != nil {
			return false, err
		}
		key := "naive_" + effect.String()
		if _, err := tx.Exec(ctx, naiveInsertEffect, effect, id, route.ID, route.Version, key, job.Job.ID); err != nil {
			return false, err
		}
		out.Effects++
	}
	return true, nil
}

const readSource = `
SELECT s.id, s.class, r.id, r.version, r.name FROM source s JOIN route r ON r.source_id = s.id WHERE s.name = $1`

// serveNaive runs the naive receiver until SIGTERM, on the source that the real binary has registered.
func serveNaive(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("naive", flag.ContinueOnError)
	listen := flags.String("listen", "", "address")
	database := flags.String("database", "", "connection string")
	secret := flags.String("secret", "", "of the sender")
	connections := flags.Int("connections", 16, "of the pool")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pool, err := session.OpenPool(ctx, *database, schema, session.PoolWork, int32(*connections))
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("making River's client: %w", err)
	}
	source := &inbox.Source{Name: sourceName, Routes: []inbox.Route{{Types: []string{"*"}}}}
	route := &source.Routes[0]
	if err := pool.QueryRow(ctx, readSource, sourceName).Scan(&source.ID, &source.Class, &route.ID, &route.Version, &route.Name); err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	known, err := catalog.Load()
	if err != nil {
		return fmt.Errorf("loading the catalogue: %w", err)
	}
	secrets := []providers.Secret{{Name: "bench", Value: []byte(*secret)}}
	logger := slog.New(slog.DiscardHandler)
	handler, err := receiver.New(receiver.Config{
		Gate:   &naive{pool: pool, river: client},
		Logger: logger,
		Sources: map[string]*receiver.Source{sourceName: {
			Inbox: source, Provider: known["stripe"], Secrets: func() []providers.Secret { return secrets },
		}},
	})
	if err != nil {
		return err
	}
	server, err := receiver.NewServer(receiver.ServerConfig{Handler: handler.Handler(), Logger: logger})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen) //nolint:noctx // binds at once or fails
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	go func() {
		<-ctx.Done()
		timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(timed) // the process ends either way
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
