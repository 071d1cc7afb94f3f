package read_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
)

func TestStreamsAreListed(t *testing.T) {
	t.Parallel()
	b := storetest.NewStreamBook(t)
	plain, gap, blocked := b.Stream("a", "3"), b.Stream("b", "1"), b.Stream("c/d", "0.5")
	b.Effect("b", 3, inbox.EffectHeld)
	b.Effect("b", 4, inbox.EffectHeld)
	b.Effect("b", 1, inbox.EffectDone)
	b.Gap(gap)
	dead := b.Effect("c/d", 1, inbox.EffectDead)
	b.Blocked(blocked, dead)
	list := func(f read.StreamFilter) []int64 {
		t.Helper()
		rows, err := inboxtest.Rows(b.Lister.Streams(t.Context(), f))
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int64, len(rows))
		for i, row := range rows {
			ids[i] = row.ID
		}
		return ids
	}
	first, err := b.Lister.Streams(t.Context(), read.StreamFilter{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		filter read.StreamFilter
		want   []int64
	}{
		"all":            {read.StreamFilter{}, []int64{blocked, gap, plain}},
		"source":         {read.StreamFilter{Source: "orders"}, []int64{blocked, gap, plain}},
		"other source":   {read.StreamFilter{Source: "stripe"}, nil},
		"route":          {read.StreamFilter{Route: "fulfil"}, []int64{blocked, gap, plain}},
		"other route":    {read.StreamFilter{Route: "other"}, nil},
		"gap":            {read.StreamFilter{Gap: true}, []int64{gap}},
		"blocked":        {read.StreamFilter{Blocked: true}, []int64{blocked}},
		"standing still": {read.StreamFilter{Blocked: true, Gap: true}, []int64{blocked, gap}},
		"first page":     {read.StreamFilter{Limit: 2}, []int64{blocked, gap}},
		"next page":      {read.StreamFilter{Limit: 2, Cursor: first.Next}, []int64{plain}},
	} {
		if got := list(c.filter); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	rows, err := inboxtest.Rows(b.Lister.Streams(t.Context(), read.StreamFilter{}))
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r.Key != "c/d" || r.Applied != "0.5" || r.BlockedBy == nil || *r.BlockedBy != dead || r.Held != 0 {
		t.Errorf("blocked: %+v", r)
	}
	if r := rows[1]; r.Held != 2 || r.GapSince == nil || time.Since(*r.GapSince) < 9*time.Minute || r.Applied != "1" {
		t.Errorf("gap: %+v", r)
	}
}

func TestStreamIsShown(t *testing.T) {
	t.Parallel()
	b := storetest.NewStreamBook(t)
	id := b.Stream("a/b", "2")
	b.Effect("a/b", 2, inbox.EffectDone)
	for n := 20; n >= 6; n-- {
		b.Effect("a/b", n, inbox.EffectHeld)
	}
	b.Effect("a", 3, inbox.EffectHeld) // another key
	b.Gap(id)
	for _, ref := range []string{fmt.Sprint(id), "orders/fulfil/a/b"} {
		d := b.Show(ref)
		if d.ID != id || d.MissingFrom != "3" || d.MissingTo != "5" || d.Held != 15 || len(d.Waiting) != 10 {
			t.Fatalf("%s: %+v", ref, d)
		}
		if d.Waiting[0].Number != "6" || d.Waiting[9].Number != "15" || d.Waiting[0].State != "held" || !strings.HasPrefix(d.Waiting[0].EventID, "a/b-6-") {
			t.Errorf("%s: %+v", ref, d.Waiting)
		}
	}
	dead, running := b.Effect("a/b", 3, inbox.EffectDead), b.Effect("a/b", 1, inbox.EffectClaimed)
	b.Blocked(id, dead)
	storetest.Exec(t, b.Pool, `UPDATE stream SET in_flight = $2 WHERE id = $1`, id, running)
	d := b.Show(fmt.Sprint(id))
	if d.BlockedByEffect == nil || d.BlockedByEffect.ID != dead || d.BlockedByEffect.Reason != "status_4xx" || d.BlockedByEffect.Number != "3" {
		t.Errorf("blocked by %+v", d.BlockedByEffect)
	}
	if d.InFlightEffect == nil || d.InFlightEffect.ID != running || d.InFlightEffect.State != "claimed" {
		t.Errorf("in flight %+v", d.InFlightEffect)
	}
	if d.MissingFrom != "" { // 3 is recorded: it is not missing
		t.Errorf("missing %s to %s", d.MissingFrom, d.MissingTo)
	}
	for ref, want := range map[string]error{
		"99999": inbox.ErrNotFound, "orders/fulfil/none": inbox.ErrNotFound, "orders/other/a/b": inbox.ErrNotFound,
		"": read.ErrStreamReference, "orders": read.ErrStreamReference, "orders/fulfil": read.ErrStreamReference,
		"orders/fulfil/": read.ErrStreamReference, "/fulfil/a": read.ErrStreamReference, "-1": read.ErrStreamReference, "0": read.ErrStreamReference,
	} {
		if _, err := b.Lister.Stream(t.Context(), ref); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", ref, err, want)
		}
	}
}

func TestStreamStats(t *testing.T) {
	t.Parallel()
	b := storetest.NewStreamBook(t)
	if s, err := read.CountStreams(t.Context(), b.Pool, b.Route, time.Minute); err != nil || s.Held+s.Gaps+s.Blocked+len(s.Long) != 0 || s.OldestGap != 0 {
		t.Errorf("empty: %+v, %v", s, err)
	}
	gap, blocked := b.Stream("a", "1"), b.Stream("b", "1")
	b.Effect("a", 3, inbox.EffectHeld)
	b.Effect("a", 4, inbox.EffectHeld)
	b.Effect("b", 3, inbox.EffectHeld)
	b.Effect("b", 9, inbox.EffectPending)
	b.Effect("b", 1, inbox.EffectDone)
	b.Gap(gap)
	b.Blocked(blocked, b.Effect("b", 2, inbox.EffectDead))
	s, err := read.CountStreams(t.Context(), b.Pool, b.Route, 5*time.Minute)
	if err != nil || s.Held != 3 || s.Gaps != 1 || s.Blocked != 1 || s.OldestGap < 10*time.Minute || s.OldestGap > 20*time.Minute ||
		len(s.Long) != 1 || s.Long[0].Stream != gap {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := read.CountStreams(t.Context(), b.Pool, b.Route, time.Hour); err != nil || len(s.Long) != 0 {
		t.Errorf("no gap is an hour old: %+v, %v", s, err)
	}
	if s, err := read.CountStreams(t.Context(), b.Pool, b.Route+1, time.Hour); err != nil || s.Held != 0 || s.Gaps != 0 {
		t.Errorf("another route: %+v, %v", s, err)
	}
}

// What is read while everything goes on reads a few rows from one end of an index,
// however many effects and streams there are.
func TestStreamPlans(t *testing.T) {
	t.Parallel()
	b := storetest.NewStreamBook(t)
	tx, err := b.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off`); err != nil {
		t.Fatal(err)
	}
	hash := inbox.SequenceKeyHash("orders", "fulfil", "a")
	for sql, c := range map[string]struct {
		args []any
		want []string
	}{
		read.CountStreamsSQL: {[]any{b.Route, 10}, []string{"effect_open_idx", "stream_gap_idx", "stream_blocked_idx"}},
		read.WaitingEffects:  {[]any{b.Route, hash, 10}, []string{"effect_open_idx"}},
		row.MissingNumbers:   {[]any{1}, []string{"stream_pkey", "effect_sequence_idx"}},
		read.ReadPlaces:      {[]any{inbox.NewID(time.Now()), ""}, []string{"effect_event_route_item_key", "stream_key", "Backward using effect_sequence_idx"}},
	} {
		rows, err := tx.Query(t.Context(), "EXPLAIN "+sql, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("the plan has no %s:\n%s", want, text)
			}
		}
		if strings.Contains(text, "Seq Scan") {
			t.Errorf("the plan reads a whole table:\n%s", text)
		}
	}
}
