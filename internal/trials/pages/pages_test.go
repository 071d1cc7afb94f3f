package pages_test

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/trials/pages"
	"github.com/oncegate/oncegate/migrations"
)

var (
	events = flag.Int("events", 20_000, "how many events the tables hold")
	limit  = flag.Duration("limit", 0, "what the 95th percentile of a list may take, unless it says how far it got; 0 is anything")
	runs   = flag.Int("runs", 5, "how often each list is read, each time some pages of it")
	keep   = flag.String("keep", "", "the schema that is filled and kept: a run that finds it measures what it holds")
	only   = flag.String("only", "", "the lists that are read: a regular expression of their names; empty is all")
)

// turned is how many pages of a list are read in a row.
const turned = 4

// result is what a page of a list was like.
type result struct {
	rows    int
	more    bool
	cut     bool
	next    string
	elapsed time.Duration
}

// lists are all lists with each filter.
func lists(l *read.Lister) map[string]func(ctx context.Context, cursor string) (result, error) {
	out := map[string]func(context.Context, string) (result, error){}
	for name, f := range map[string]read.EventFilter{
		"events": {}, "events source=busy5": {Source: "busy5"}, "events source=rare": {Source: "rare"}, "events source=thousand": {Source: "thousand"},
		"events source=retired": {Source: "retired"}, "events type=none": {Type: "none"}, "events type=invoice.paid": {Type: "invoice.paid"},
		"events source=rare type=payout.paid": {Source: "rare", Type: "payout.paid"}, "events tenant=tenant3": {Tenant: "tenant3"}, "events tenant=none": {Tenant: "none"},
		"events route=mail": {Route: "mail"}, "events event_id": {EventID: "evt_777"}, "events unusable": {State: "unusable"}, "events unrouted": {State: "unrouted"},
		"events a week ago": {Since: time.Now().AddDate(0, 0, -8), Until: time.Now().AddDate(0, 0, -7)},
	} {
		add(out, name, func(ctx context.Context, cursor string) (read.Page[read.EventRow], error) {
			f := f
			f.Cursor = cursor
			return l.Events(ctx, f)
		})
	}
	for name, f := range map[string]read.EffectFilter{
		"effects": {}, "effects source=busy5": {Source: "busy5"}, "effects source=rare": {Source: "rare"}, "effects source=thousand": {Source: "thousand"},
		"effects source=retired": {Source: "retired"}, "effects type=none": {Type: "none"}, "effects route=mail": {Route: "mail"}, "effects target=mail7": {Target: "mail7"},
		"effects reason=discarded": {Reason: "discarded"}, "effects tenant=none": {Tenant: "none"}, "effects event_id": {EventID: "evt_777"},
		"effects dead source=thousand": {State: "dead", Source: "thousand"}, "effects held type=payout.paid": {State: "held", Type: "payout.paid"},
	} {
		add(out, name, func(ctx context.Context, cursor string) (read.Page[read.EffectRow], error) {
			f := f
			f.Cursor = cursor
			return l.Effects(ctx, f)
		})
	}
	for _, state := range []string{"pending", "claimed", "retry", "held", "done", "dead", "indeterminate", "superseded", "skipped", "duplicate"} {
		add(out, "effects "+state, func(ctx context.Context, cursor string) (read.Page[read.EffectRow], error) {
			return l.Effects(ctx, read.EffectFilter{State: state, Cursor: cursor})
		})
		add(out, "events "+state, func(ctx context.Context, cursor string) (read.Page[read.EventRow], error) {
			return l.Events(ctx, read.EventFilter{State: state, Cursor: cursor})
		})
	}
	for name, f := range map[string]read.DeadFilter{
		"dead letters": {}, "dead letters source=rare": {Source: "rare"}, "dead letters reason=timeout": {Reason: "timeout"}, "dead letters class": {ErrorClass: read.ErrorAnswer5xx},
		"dead letters class=mail": {ErrorClass: read.ErrorMail}, "dead letters text": {Text: "nothing"}, "dead letters tenant=none": {Tenant: "none"}, "dead letters type=none": {Type: "none"},
	} {
		add(out, name, func(ctx context.Context, cursor string) (read.Page[read.DeadRow], error) {
			return l.Dead(ctx, f, read.PageRequest{Cursor: cursor})
		})
		add(out, name+", grouped", func(ctx context.Context, _ string) (read.Page[read.DeadGroup], error) { return l.DeadGroups(ctx, f) })
	}
	add(out, "unknown outcomes, grouped", func(ctx context.Context, _ string) (read.Page[read.UnknownGroup], error) {
		return l.UnknownGroups(ctx, read.UnknownFilter{})
	})
	add(out, "undecided", func(ctx context.Context, _ string) (read.Page[read.Undecided], error) {
		return l.Undecided(ctx, read.StreamFilter{}, 0)
	})
	return out
}

func add[Row any](out map[string]func(context.Context, string) (result, error), name string, list func(context.Context, string) (read.Page[Row], error)) {
	out[name] = func(ctx context.Context, cursor string) (result, error) {
		began := time.Now()
		page, err := list(ctx, cursor)
		return result{rows: len(page.Data), more: page.HasMore, cut: page.SearchedTo != nil, next: page.Next, elapsed: time.Since(began)}, err
	}
}

// TestListsAnswerInTime reads every list with every filter.
//
//nolint:paralleltest // it measures
func TestListsAnswerInTime(t *testing.T) {
	url, schema := inboxtest.URL(t), *keep
	if schema == "" {
		url, schema = inboxtest.Schema(t)
	} else if err := migrations.Up(t.Context(), url, schema); err != nil {
		t.Fatal(err)
	}
	fill(t, url, schema)
	l := read.NewLister(inboxtest.Open(t, url, schema, session.PoolList, 3))
	all := lists(l)
	names := make([]string, 0, len(all))
	chosen := regexp.MustCompile(*only)
	for name := range all {
		if chosen.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	fmt.Printf("%-40s %9s %9s %9s %6s %6s\n", "LIST", "P50", "P95", "MAX", "ROWS", "CUT")
	for _, name := range names {
		var took []time.Duration
		rows, cut, pages := 0, 0, 0
		for range *runs {
			cursor := ""
			for range turned {
				r, err := all[name](t.Context(), cursor)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				took, rows, pages = append(took, r.elapsed), rows+r.rows, pages+1
				if r.cut {
					cut++
				}
				if cursor = r.next; !r.more || cursor == "" {
					break
				}
			}
		}
		slices.Sort(took)
		p95 := took[len(took)*95/100]
		fmt.Printf("%-40s %9s %9s %9s %6d %3d/%d\n", name, took[len(took)/2].Round(100*time.Microsecond), p95.Round(100*time.Microsecond),
			took[len(took)-1].Round(100*time.Microsecond), rows/pages, cut, pages)
		if *limit > 0 && p95 > *limit && cut == 0 {
			t.Errorf("%s: the 95th percentile is %s, the limit is %s", name, p95, *limit)
		}
		if *limit > 0 && p95 > read.ListBudget {
			t.Errorf("%s: the 95th percentile is %s, the budget is %s", name, p95, read.ListBudget)
		}
	}
}

// fill fills the schema, unless an earlier run has.
func fill(t *testing.T, url, schema string) {
	t.Helper()
	// A statement of the filling takes minutes.
	writer := inboxtest.Open(t, url, schema, session.PoolGate, 1)
	var filled bool
	if err := writer.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM source WHERE name = 'retired')").Scan(&filled); err != nil {
		t.Fatal(err)
	}
	if filled {
		fmt.Printf("the tables of schema %s stay as they are\n", schema)
		return
	}
	for _, setting := range []string{"plan_cache_mode", "enable_seqscan", "enable_hashjoin"} {
		if _, err := writer.Exec(t.Context(), "RESET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := writer.Exec(t.Context(), "SET plan_cache_mode = force_custom_plan; SET enable_seqscan = on; SET enable_hashjoin = on"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := pages.Fill(t.Context(), writer, *events, func(format string, args ...any) {
		fmt.Printf("filled "+format+" after %s\n", append(args, time.Since(began).Round(time.Second))...)
	}); err != nil {
		t.Fatal(err)
	}
}
