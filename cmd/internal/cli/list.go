package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// listFlags are the flags that filter lists.
type listFlags struct {
	pageFlags
	source, tenant, kind, state, route, since, until string
}

func (f *listFlags) add(cmd *cobra.Command, states string) {
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "only this source")
	f.addTenant(cmd)
	flags.StringVar(&f.kind, "type", "", "only this event type")
	flags.StringVar(&f.state, "state", "", "only this state: "+states)
	flags.StringVar(&f.route, "route", "", "only events with an effect of this route")
	f.addSince(cmd, "received ")
	f.pageFlags.add(cmd)
}

// addTenant adds --tenant, for objects that belong to a tenant.
func (f *listFlags) addTenant(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant")
}

// addSince adds --since, for objects that have a time. what names that time.
func (f *listFlags) addSince(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.since, "since", "", "only those "+what+"since: a duration before now (2h, 7d) or an instant (2026-11-20T12:00:00Z)")
}

// addUntil adds --until, for lists that can end at a time.
func (f *listFlags) addUntil(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.until, "until", "", "only those "+what+"before: a duration before now or an instant")
}

// parseUntil parses --until, which must not be before since.
func (f *listFlags) parseUntil(since time.Time) (time.Time, error) {
	until, err := parseInstant("--until", f.until)
	if err == nil && !until.IsZero() && until.Before(since) {
		err = usagef("--until is before --since: nothing could match")
	}
	return until, err
}

// parse validates the flags.
func (f *listFlags) parse(states []string) (since time.Time, err error) {
	if err := f.check(); err != nil {
		return since, err
	}
	if f.state != "" && !slices.Contains(states, f.state) {
		return since, usagef("--state %q is unknown; known are %s", f.state, strings.Join(states, ", "))
	}
	return parseInstant("--since", f.since)
}

// pageFlags are the flags that select pages of a list.
type pageFlags struct {
	limit int
	after string
	all   bool
}

func (f *pageFlags) add(cmd *cobra.Command) {
	f.addTo(cmd, "all")
}

// addTo is like add, for a command in which --all means something else.
func (f *pageFlags) addTo(cmd *cobra.Command, all string) {
	cmd.Flags().IntVar(&f.limit, "limit", 50, "rows on a page, at most 1000")
	cmd.Flags().StringVar(&f.after, "after", "", "show the page after this `cursor`, which the page before names")
	cmd.Flags().BoolVar(&f.all, all, false, "every page, one after the other")
}

// check validates the flags.
func (f *pageFlags) check() error {
	if f.limit < 1 || f.limit > 1000 {
		return usagef("--limit %d: must be from 1 to 1000", f.limit)
	}
	return nil
}

// request returns the request for the first page.
func (f *pageFlags) request() control.PageRequest {
	request := control.PageRequest{Limit: f.limit, After: f.after}
	if f.all {
		request.Limit = allPage
	}
	return request
}

// allPage is how many rows --all requests at once.
const allPage = 500

// listing describes a list that is shown in pages.
type listing[Row any] struct {
	// page reads one page.
	page func(control.PageRequest) (read.Page[Row], error)
	draw func([]Row) *table
	// entry returns the row's entry for @1. It is nil if the rows have no ids.
	entry func(*Row) listEntry
}

// showList shows one page of a list, or every page with --all, and explains how to see the next
// page.
func showList[Row any](s *shell, cmd *cobra.Command, f *pageFlags, l listing[Row]) error {
	if err := s.checkView(l.draw(nil), f, cmd); err != nil {
		return err
	}
	request := f.request()
	page, err := l.page(request)
	if err != nil {
		return err
	}
	out := s.newListWriter()
	var entries []listEntry
	for {
		if s.output == "json" {
			for i := range page.Data {
				if err := out.row(page.Data[i]); err != nil {
					return err
				}
			}
		}
		if l.entry != nil && s.remembers() {
			for i := range page.Data {
				entries = append(entries, l.entry(&page.Data[i]))
			}
		}
		if !f.all || !page.HasMore {
			break
		}
		before := page.Data
		request.After = page.Next
		if page, err = l.page(request); err != nil {
			return err
		}
		if s.output != "json" { // the layout of a table depends on all rows
			page.Data = append(before, page.Data...)
			entries = nil
		}
	}
	if s.output == "json" {
		if err := out.end(page.HasMore, page.Next, page.SearchedTo); err != nil {
			return err
		}
	} else {
		s.drawList(l.draw(page.Data), s.remembers() && l.entry != nil)
	}
	if l.entry != nil {
		s.rememberList(cmd, entries)
	}
	s.sayMore(page.HasMore, page.Next, page.SearchedTo)
	return nil
}

// showRows shows a list that is not paged.
func showRows[Row any](s *shell, cmd *cobra.Command, rows []Row, draw func([]Row) *table, entry func(*Row) listEntry) error {
	return showList(s, cmd, &pageFlags{limit: 1}, listing[Row]{
		draw: draw, entry: entry,
		page: func(control.PageRequest) (read.Page[Row], error) { return read.Page[Row]{Data: emptyList(rows)}, nil },
	})
}

// sayMore explains how to see the next page, if there is one.
func (s *shell) sayMore(more bool, next string, searchedTo *time.Time) {
	if !more {
		return
	}
	what := "there is more"
	if searchedTo != nil {
		what = "the search ran out of time and has looked back to " + clock(*searchedTo)
	}
	fmt.Fprintf(s.err, "oncegate: %s: add --after %s, or --all\n", what, clean(next))
}

// pageReader reads one page of a list from an operation.
type pageReader[Row any] func(context.Context, control.Caller, control.PageRequest) (read.Page[Row], error)

// listPages shows the list of an operation.
func listPages[Row any](s *shell, cmd *cobra.Command, f *pageFlags, ask pageReader[Row], draw func([]Row) *table, entry func(*Row) listEntry) error {
	return s.control(cmd.Context(), "", func(caller control.Caller) error {
		return listPagesOf(s, cmd, caller, f, ask, draw, entry)
	})
}

// listPagesOf is like listPages with an existing caller.
func listPagesOf[Row any](s *shell, cmd *cobra.Command, caller control.Caller, f *pageFlags, ask pageReader[Row], draw func([]Row) *table, entry func(*Row) listEntry) error {
	return showList(s, cmd, f, listing[Row]{draw: draw, entry: entry, page: func(p control.PageRequest) (read.Page[Row], error) {
		return ask(cmd.Context(), caller, p)
	}})
}

// emptyList returns an empty list for nil, so that JSON shows [] instead of null.
func emptyList[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}
