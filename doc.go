// Package oncegate takes webhooks into a Go program and carries out what they ask for,
// exactly once, on the PostgreSQL that the program has already.
//
// [Open] opens the database, [Inbox.Handle] attaches a function to a route,
// [Inbox.Handler] takes deliveries in the program's own HTTP server, and [Inbox.Run] works
// until its context ends:
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
// A delivery is answered with 200 only after its event, its body and the effects that it asks
// for are committed together. A handler's writes and the record that it ran are one
// transaction. Package inbox states the whole promise.
//
// [Load] reads the configuration file that the binary reads; it can say more than [Config]
// does: targets of every kind, retention, limits. The guide docs/guides/embed.md has the
// rest: shutdown, metrics, several processes, a River client of the program's own.
package oncegate
