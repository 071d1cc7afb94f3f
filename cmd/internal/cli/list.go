package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/seal"
)

// listFlags are what all lists are narrowed by.
type listFlags struct {
	source, tenant, kind, state, route, since, before string
	limit                                             int
}

func (f *listFlags) add(cmd *cobra.Command, states string) {
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "only this source")
	f.addTenant(cmd)
	flags.StringVar(&f.kind, "type", "", "only this event type")
	flags.StringVar(&f.state, "state", "", "only this state: "+states)
	flags.StringVar(&f.route, "route", "", "only events with an effect of this route")
	f.addSince(cmd, "received ")
	f.addPage(cmd)
}

// addTenant is for what belongs to somebody.
func (f *listFlags) addTenant(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant")
}

// addSince is for what has a time of its own; what says which.
func (f *listFlags) addSince(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.since, "since", "", "only those "+what+"since: a duration before now (2h, 7d) or an instant (2026-11-20T12:00:00Z)")
}

// addPage is for what is shown in pages, by id.
func (f *listFlags) addPage(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.before, "before", "", "show the page after this id")
	addLimit(cmd, &f.limit)
}

func addLimit(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", 50, "rows on a page, at most 1000")
}

func checkLimit(limit int) error {
	if limit < 1 || limit > 1000 {
		return usagef("--limit %d: must be from 1 to 1000", limit)
	}
	return nil
}

func (f *listFlags) parse(states []string) (since time.Time, before inbox.ID, err error) {
	if err := checkLimit(f.limit); err != nil {
		return since, before, err
	}
	if f.state != "" && !slices.Contains(states, f.state) {
		return since, before, usagef("--state %q is unknown; known are %s", f.state, strings.Join(states, ", "))
	}
	if since, err = parseInstant("--since", f.since); err != nil {
		return since, before, err
	}
	if f.before != "" {
		if before, err = inbox.ParseID(f.before); err != nil {
			return since, before, usagef("--before %q: not an id", f.before)
		}
	}
	return since, before, nil
}

// read does something with what the database holds.
func (s *shell) read(cmd *cobra.Command, do func(context.Context, *inbox.Lister) error) error {
	return s.withPool(cmd.Context(), fewConnections, func(pool *pgxpool.Pool, keys *seal.Keyring) error {
		return do(cmd.Context(), inbox.NewLister(pool).WithKeyring(keys))
	})
}

// lister reads from pool, also what is sealed.
func (s *shell) lister(pool *pgxpool.Pool) (*inbox.Lister, error) {
	keys, err := s.keyring()
	if err != nil {
		return nil, err
	}
	return inbox.NewLister(pool).WithKeyring(keys), nil
}

// showPage reads one page of rows from the database, shows it, and says how to get
// the next one.
func showPage[Row, Cursor any](s *shell, cmd *cobra.Command, limit int, read func(context.Context, *inbox.Lister) ([]Row, error),
	draw func([]Row) *table, id func(Row) Cursor,
) error {
	return s.read(cmd, func(ctx context.Context, lister *inbox.Lister) error {
		rows, err := read(ctx, lister)
		if err != nil {
			return err
		}
		if err := s.show(draw(rows), emptyList(rows)); err != nil {
			return err
		}
		return s.hintNextPage(len(rows), limit, func() any { return id(rows[len(rows)-1]) })
	})
}

// hintNextPage says how to get the next page, where a person reads the table.
func (s *shell) hintNextPage(rows, limit int, last func() any) error {
	if s.output == "table" && rows == limit {
		fmt.Fprintf(s.err, "oncegate: there may be more: add --before %v\n", last())
	}
	return nil
}

// emptyList makes an empty JSON list of nothing.
func emptyList[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}
