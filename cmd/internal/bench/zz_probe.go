package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

func (b *pruneBench) probe(ctx context.Context, stop <-chan struct{}) {
	db, err := pgx.Connect(ctx, b.server.DSN())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer db.Close(ctx)
	for {
		select {
		case <-stop:
			return
		case <-time.After(4 * time.Millisecond):
		}
		at := time.Now()
		rows, err := db.Query(ctx, `SELECT backend_type, application_name, coalesce(wait_event_type,'-')||':'||coalesce(wait_event,'-'), extract(epoch from clock_timestamp()-query_start)::float8*1000, left(query, 60) FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND state = 'active' AND clock_timestamp()-query_start > interval '15 ms' OR backend_type IN ('checkpointer','walwriter') AND wait_event_type = 'IO' `)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		for rows.Next() {
			var ty, app, wait, q string
			var ms *float64
			_ = rows.Scan(&ty, &app, &wait, &ms, &q)
			m := 0.0
			if ms != nil {
				m = *ms
			}
			fmt.Fprintf(os.Stderr, "S %s %s %s %s %.0f %q\n", at.Format("05.000"), ty, app, wait, m, q)
		}
	}
}
