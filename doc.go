// Package oncegate receives webhooks in a Go program and runs their effects exactly once, using the
// PostgreSQL database that the program already has.
//
// [Open] opens the database, [Inbox.Handle] attaches a function to a route, [Inbox.Handler] accepts
// deliveries in the program's own HTTP server, and [Inbox.Run] works until its context ends:
//
//	og, err := oncegate.Open(ctx, oncegate.Config{
//		DatabaseURL: url,
//		Migrate:     true,
//		Sources: []oncegate.Source{{
//			Name: "stripe", Provider: "stripe", Secrets: []oncegate.Secret{oncegate.Env("STRIPE_WEBHOOK_SECRET")},
//			Routes: []oncegate.Route{{Name: "ledger", Types: []string{"invoice.paid"}}},
//		}},
//	})
//	og.Handle("ledger", func(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
//		_, err := tx.Exec(ctx, `INSERT INTO public.ledger (event) VALUES ($1)`, e.EventID)
//		return err
//	})
//	mux.Handle("/in/", og.Handler())
//	err = og.Run(ctx)
//
// A delivery is answered with 200 only after its event, its body and its effects are committed
// together. A handler's writes and the record that it ran are in one transaction. Package inbox
// states the complete guarantee.
//
// [Load] reads the binary's configuration file, which has more settings than [Config]: targets of
// every kind, retention, limits. The guide docs/guides/embed.md describes the rest: shutdown,
// metrics, several processes, and a River client of the program's own.
package oncegate
