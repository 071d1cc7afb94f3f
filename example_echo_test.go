package oncegate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"github.com/oncegate/oncegate"
)

// An echo service accepts webhooks at /in/stripe next to its own routes. Its handler fails at
// first: its writes are rolled back, and the next attempt writes them again.
func Example_echo() {
	shop := openShop()
	defer shop.close()

	og, err := oncegate.Open(shop.ctx, oncegate.Config{
		DatabaseURL: shop.database, Migrate: true, Schema: "example_echo",
		Sources: []oncegate.Source{{
			Name: "stripe", Secrets: []oncegate.Secret{oncegate.Value("whsec_example")},
			Routes: []oncegate.Route{{
				Name: "ledger", Types: []string{"invoice.*"}, Retry: oncegate.Retry{Attempts: 3, Base: 10 * time.Millisecond},
			}},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	attempts := 0
	_ = og.Handle("ledger", func(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
		if _, err := tx.Exec(ctx, `INSERT INTO shop.ledger (event) VALUES ($1)`, e.EventID); err != nil {
			return err
		}
		if attempts++; attempts == 1 {
			return errors.New("the books are closed for a moment")
		}
		return nil
	})
	server := echo.New()
	server.Any("/in/*", echo.WrapHandler(og.Handler()))
	go func() { shop.watch(og.Run(shop.ctx)) }()

	fmt.Println(shop.deliver(server, "evt_1"))
	fmt.Println("booked:", shop.booked(1), "in attempt", attempts)
	// Output:
	// 200 recorded
	// booked: 1 in attempt 2
}
