package oncegate_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

type receiptArgs struct {
	Event string `json:"event"`
}

func (receiptArgs) Kind() string { return "receipt" }

// The program uses its own River, in another schema of the same database. A handler enqueues a job
// there in its transaction: the job exists if the effect happened, and is not in Oncegate's tables.
func TestAHandlerEnqueuesAJobOfTheProgramsOwnRiver(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	_, own := inboxtest.EmptySchema(t)
	if _, err := w.pool.Exec(t.Context(), "CREATE SCHEMA "+own); err != nil {
		t.Fatal(err)
	}
	driver := riverpgxv5.New(w.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: own, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	client, err := river.NewClient(driver, &river.Config{Schema: own, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	attach(t, w.og, "ledger", func(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
		_, err := client.InsertTx(ctx, tx, receiptArgs{Event: e.EventID}, nil)
		return err
	})
	w.run(t)
	w.acknowledged(t, "evt_1")
	w.await(t, 1, `SELECT count(*) FROM effect WHERE state = 'done'`)
	w.halt(t)
	if n := w.count(t, `SELECT count(*) FROM `+own+`.river_job WHERE kind = 'receipt' AND args->>'event' = 'evt_1'`); n != 1 {
		t.Errorf("%d jobs in the program's River, want 1", n)
	}
	if n := w.count(t, `SELECT count(*) FROM river_job WHERE kind = 'receipt'`); n != 0 {
		t.Errorf("%d jobs of the program in Oncegate's tables", n)
	}
}
