package oncegate_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate"
)

// embed contains everything that a service with net/http adds to receive Stripe's webhooks: a paid
// invoice is booked once, in the transaction that records the booking.
func embed(ctx context.Context, database string, mux *http.ServeMux) error {
	og, err := oncegate.Open(ctx, oncegate.Config{
		DatabaseURL: database, Migrate: true, Schema: "example_net_http",
		Sources: []oncegate.Source{{
			Name: "stripe", Secrets: []oncegate.Secret{oncegate.Value("whsec_example")},
			Routes: []oncegate.Route{{Name: "ledger", Types: []string{"invoice.paid"}}},
		}},
	})
	if err != nil {
		return err
	}
	_ = og.Handle("ledger", func(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
		_, err := tx.Exec(ctx, `INSERT INTO shop.ledger (event) VALUES ($1)`, e.EventID)
		return err
	})
	mux.Handle("/in/", og.Handler())
	return og.Run(ctx)
}

// A net/http service accepts webhooks at /in/stripe. The same event arrives twice, and the handler
// runs once.
func Example_netHTTP() {
	shop := openShop()
	defer shop.close()

	mux := http.NewServeMux()
	go func() { shop.watch(embed(shop.ctx, shop.database, mux)) }()

	fmt.Println(shop.deliver(mux, "evt_1"))
	fmt.Println(shop.deliver(mux, "evt_1"))
	fmt.Println("booked:", shop.booked(1))
	// Output:
	// 200 recorded
	// 200 duplicate
	// booked: 1
}
