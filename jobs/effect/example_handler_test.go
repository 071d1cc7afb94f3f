package effect_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/jobs/effect"
)

// printed is a transaction that says what it is asked to do.
type printed struct{ pgx.Tx }

func (printed) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	fmt.Println(sql, args) //nolint:forbidigo // an example's output
	return pgconn.CommandTag{}, nil
}

// A handler with the transaction: what it writes through tx and the outcome are
// committed together, so it happens exactly once.
func ExampleHandlerFunc() {
	markPaid := effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, event effect.Event) error {
		if event.Type != "invoice.paid" {
			return effect.Permanent(errors.New("only paid invoices are marked"))
		}
		_, err := tx.Exec(ctx, `UPDATE invoice SET paid = true WHERE event = $1`, event.EventID)
		return err // an error of the database is judged by its code
	})

	// The worker does this, and then commits or rolls back.
	ctx := context.Background()
	paid := markPaid.Act(ctx, printed{}, &effect.Call{Event: effect.Event{Type: "invoice.paid", EventID: "evt_1"}})
	fmt.Println(paid.Outcome)
	voided := markPaid.Act(ctx, printed{}, &effect.Call{Event: effect.Event{Type: "invoice.voided", EventID: "evt_2"}})
	fmt.Println(voided.Outcome, voided.Excerpt)
	// Output:
	// UPDATE invoice SET paid = true WHERE event = $1 [evt_1]
	// done
	// dead only paid invoices are marked
}

// A handler without a transaction, for what happens elsewhere. It says what it
// knows; of anything else it is assumed that it may have happened.
func ExampleOutsideHandler() {
	errBusy, errReset := errors.New("the bank is busy"), errors.New("connection reset")
	answers := map[string]error{"evt_2": errBusy, "evt_3": errReset}
	charge := &effect.OutsideHandler{
		Handle: func(_ context.Context, call *effect.Call) ([]byte, error) {
			// bank.Charge(ctx, call.Event.Body, bank.WithIdempotencyKey(call.Key))
			err := answers[call.Event.EventID]
			if errors.Is(err, errBusy) {
				return nil, effect.After(time.Minute, err) // it did nothing
			}
			return []byte("ch_1"), err
		},
		Deduplicates: false, // so what may have happened waits for a person
	}

	for _, id := range []string{"evt_1", "evt_2", "evt_3"} {
		result := charge.Send(context.Background(), &effect.Call{Event: effect.Event{EventID: id}, Key: "og1_" + id})
		fmt.Println(id, result.Outcome, string(result.Stored), result.RetryAfter)
	}
	// Output:
	// evt_1 done ch_1 0s
	// evt_2 retry  1m0s
	// evt_3 unknown  0s
}
