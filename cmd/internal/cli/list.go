package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// list is a command that shows the list of an operation. The fields of the operation's request declare its flags, and
// columns declares its table.
type list[Request, Row any] struct {
	Command   *cobra.Command
	s         *shell
	operation *control.Operation[Request, read.Page[Row]]
	columns   *columns[Row]
	request   Request
	pages     pageFlags
	readFlags func() error

	// check reads the arguments and further flags into the request. It may be nil.
	check func(args []string) error

	// instead may show something else than the list, and reports whether it did. It may be nil.
	instead func(ctx context.Context, caller control.Caller) (done bool, err error)

	// below shows something below the rows of the last page. It may be nil.
	below func(caller control.Caller, rows []Row) error

	// on is how the operation runs directly on the database.
	on onDatabase
}

// newList returns the list of an operation. If cmd has no name, it is named list.
func newList[Request, Row any](s *shell, operation *control.Operation[Request, read.Page[Row]], c *columns[Row], cmd *cobra.Command) *list[Request, Row] {
	l := &list[Request, Row]{Command: cmd, s: s, operation: operation, columns: c, pages: pageFlags{limit: 1}}
	if cmd.Use == "" {
		cmd.Use, cmd.Args = "list", cobra.NoArgs
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := l.read(args); err != nil {
			return err
		}
		return s.controlWith(cmd.Context(), l.on, l.show)
	}
	l.readFlags = requestFlags(cmd, &l.request)
	if _, paged := any(&l.request).(paged); paged {
		l.pages.add(cmd)
	}
	return l
}

// paged is the request of a list that has pages.
type paged interface {
	SetPage(page control.PageRequest)
}

// read reads the arguments and flags.
func (l *list[Request, Row]) read(args []string) error {
	if err := l.pages.check(); err != nil {
		return err
	}
	if err := l.readFlags(); err != nil || l.check == nil {
		return err
	}
	return l.check(args)
}

// show reads the list and shows it.
func (l *list[Request, Row]) show(caller control.Caller) error {
	if l.instead != nil {
		if done, err := l.instead(l.Command.Context(), caller); done || err != nil {
			return err
		}
	}
	var page read.Page[Row]
	err := showList(l.s, l.Command, &l.pages, l.columns, func(p control.PageRequest) (_ read.Page[Row], err error) {
		if request, ok := any(&l.request).(paged); ok {
			request.SetPage(p)
		}
		page, err = control.Call(l.Command.Context(), caller, l.operation, l.request)
		return page, err
	})
	if err == nil && l.below != nil && l.s.output == "table" {
		err = l.below(caller, page.Data)
	}
	return err
}

// allIncludes makes --all include ended objects as well, as --ended does, which sets ended.
func (l *list[Request, Row]) allIncludes(ended *bool, what string) {
	l.Command.Flags().Lookup("all").Usage += ", also of " + what
	l.check = func([]string) error {
		*ended = *ended || l.pages.all
		return nil
	}
}

// pageFlags are the flags that select pages of a list.
type pageFlags struct {
	limit int
	after string
	all   bool
}

func (f *pageFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.limit, "limit", 50, "rows on a page, at most 1000")
	cmd.Flags().StringVar(&f.after, "after", "", "show the page after this `cursor`, which the page before names")
	cmd.Flags().BoolVar(&f.all, "all", false, "every page, one after the other")
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

// showGroups shows the groups that were counted, or returns the error of counting them. what names the rows.
func showGroups[Row any](s *shell, cmd *cobra.Command, what string, c *columns[Row], groups read.Page[Row], err error) error {
	if err != nil {
		return err
	}
	err = showList(s, cmd, &pageFlags{limit: 1}, c, func(control.PageRequest) (read.Page[Row], error) { return groups, nil })
	if err == nil {
		s.sayUncounted(what, groups.SearchedTo)
	}
	return err
}

// showList shows one page of a list, or every page with --all, and explains how to see the next
// page.
func showList[Row any](s *shell, cmd *cobra.Command, f *pageFlags, c *columns[Row], ask func(control.PageRequest) (read.Page[Row], error)) error {
	if err := s.checkView(c.table(s, nil), f, cmd); err != nil {
		return err
	}
	request := f.request()
	page, err := ask(request)
	if err != nil {
		return err
	}
	out := s.newListWriter()
	var entries []listEntry
	var guard endless
	fresh := len(page.Data)
	var databases []string // of all rows
	for {
		databases = append(databases, page.Databases...)
		if s.output == "json" {
			for i := range page.Data {
				if err := out.row(page.Data[i]); err != nil {
					return err
				}
			}
		}
		if c.entry != nil && s.remembers() {
			for i := range page.Data {
				entries = append(entries, c.entry(&page.Data[i]))
			}
		}
		if !f.all || !page.HasMore {
			break
		}
		if err := guard.check(page.Next, fresh); err != nil {
			return err
		}
		before := page.Data
		request.After = page.Next
		if page, err = ask(request); err != nil {
			return err
		}
		fresh = len(page.Data)
		if s.output != "json" { // the layout of a table depends on all rows
			page.Data = append(before, page.Data...)
			entries = nil
		}
	}
	if s.output == "json" {
		if err := out.end(page.HasMore, page.Next, page.SearchedTo, databases, page.Away); err != nil {
			return err
		}
	} else if err := s.drawList(c.table(s, page.Data).in(databases), s.remembers() && c.entry != nil); err != nil {
		return err
	}
	if c.entry != nil {
		s.rememberList(cmd, entries)
	}
	if len(page.Away) > 0 {
		fmt.Fprintf(s.err, "oncegate: these databases do not answer, so the list lacks their rows: %s\n", strings.Join(page.Away, ", "))
	}
	s.sayMore(page.HasMore, page.Next, page.SearchedTo)
	s.sayAge()
	return nil
}

// showRows shows a list that is not paged.
func showRows[Row any](s *shell, cmd *cobra.Command, c *columns[Row], rows []Row) error {
	return showList(s, cmd, &pageFlags{limit: 1}, c, func(control.PageRequest) (read.Page[Row], error) {
		return read.Page[Row]{Data: emptyList(rows)}, nil
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

// emptyList returns an empty list for nil, so that JSON shows [] instead of null.
func emptyList[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}
