package inbox_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/jobs"
)

// streamBook is a database with a route "fulfil" of a source "orders", whose
// streams and effects are written as rows: what is tested is what is read and
// decided, apart from what makes them.
type streamBook struct {
	t      *testing.T
	pool   *pgxpool.Pool
	source int32
	route  int32
	store  *inbox.Effects
	lister *inbox.Lister
}

func newStreamBook(t *testing.T) *streamBook {
	t.Helper()
	pool := inboxtest.Pool(t)
	registered, err := registry.Register(t.Context(), pool, []registry.Source{{
		Name: "orders", Provider: "test", Class: "default",
		Routes: []registry.Route{{Name: "fulfil", Target: "t", Kind: "forward", Digest: []byte{1}}, {Name: "other", Target: "t", Kind: "forward", Digest: []byte{1}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	// As the command line has it: without the configuration, and so without policies.
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return &streamBook{
		t: t, pool: pool, source: registered["orders"].ID, route: registered["orders"].Routes["fulfil"].ID, store: store, lister: inboxtest.Lister(pool),
	}
}

// stream writes a stream; applied is a number or empty.
func (b *streamBook) stream(key, applied string) int64 {
	b.t.Helper()
	var id int64
	err := b.pool.QueryRow(b.t.Context(), `INSERT INTO stream (route_id, key_hash, key_label, applied) VALUES ($1, $2, $3, nullif($4, '')::numeric) RETURNING id`,
		b.route, inbox.SequenceKeyHash("orders", "fulfil", key), key, applied).Scan(&id)
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// effect writes an event with an effect of the key.
func (b *streamBook) effect(key string, number int, state inbox.EffectState) inbox.ID {
	b.t.Helper()
	id := inbox.NewID(time.Now())
	storetest.Exec(b.t, b.pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id,
		item, body_offset, body_length, id_unsigned, suspected_replay)
		VALUES ($1::uuid, $2, $3, 'order.changed', sha256(''), now(), 'ok', 'default', $1, 0, 0, 0, false, false)`, id, b.source, fmt.Sprintf("%s-%d-%s", key, number, id))
	storetest.Exec(b.t, b.pool, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, next_at, finished_at, sequence_key_hash, sequence_number, lease_token, lease_until)
		VALUES ($1::uuid, $1, $2, $3::text, 'key', 1, CASE WHEN $3 IN ('dead', 'indeterminate', 'skipped') THEN 'status_4xx' END,
			CASE WHEN $3 IN ('pending', 'retry', 'claimed') THEN now() END, CASE WHEN $3 IN ('done', 'superseded', 'skipped') THEN now() END, $4, $5,
			CASE WHEN $3 = 'claimed' THEN $1 END, CASE WHEN $3 = 'claimed' THEN now() + interval '1 minute' END)`,
		id, b.route, string(state), inbox.SequenceKeyHash("orders", "fulfil", key), number)
	return id
}

func (b *streamBook) gap(stream int64) {
	b.t.Helper()
	storetest.Exec(b.t, b.pool, `UPDATE stream SET gap_since = now() - interval '10 minutes' WHERE id = $1`, stream)
}

func (b *streamBook) blocked(stream int64, by inbox.ID) {
	b.t.Helper()
	storetest.Exec(b.t, b.pool, `UPDATE stream SET blocked_by = $2 WHERE id = $1`, stream, by)
}

// standing is an effect's state, and whether a job will wake it.
func (b *streamBook) standing(id inbox.ID) (state string, woken bool) {
	b.t.Helper()
	err := b.pool.QueryRow(b.t.Context(), `SELECT state, EXISTS (SELECT FROM river_job j WHERE j.id = e.job_id AND j.state = 'available') FROM effect e WHERE id = $1`, id).Scan(&state, &woken)
	if err != nil {
		b.t.Fatal(err)
	}
	return state, woken
}

func (b *streamBook) show(ref string) *inbox.StreamDetail {
	b.t.Helper()
	d, err := b.lister.Stream(b.t.Context(), ref)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

func (b *streamBook) audited(stream int64) []inbox.AuditRow {
	b.t.Helper()
	rows, err := inboxtest.Rows(b.lister.Audit(b.t.Context(), inbox.AuditFilter{Object: fmt.Sprintf("stream/%d", stream)}))
	if err != nil {
		b.t.Fatal(err)
	}
	return rows
}

func TestStreamsAreListed(t *testing.T) {
	t.Parallel()
	b := newStreamBook(t)
	plain, gap, blocked := b.stream("a", "3"), b.stream("b", "1"), b.stream("c/d", "0.5")
	b.effect("b", 3, inbox.EffectHeld)
	b.effect("b", 4, inbox.EffectHeld)
	b.effect("b", 1, inbox.EffectDone)
	b.gap(gap)
	dead := b.effect("c/d", 1, inbox.EffectDead)
	b.blocked(blocked, dead)
	list := func(f inbox.StreamFilter) []int64 {
		t.Helper()
		rows, err := inboxtest.Rows(b.lister.Streams(t.Context(), f))
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int64, len(rows))
		for i, row := range rows {
			ids[i] = row.ID
		}
		return ids
	}
	for name, c := range map[string]struct {
		filter inbox.StreamFilter
		want   []int64
	}{
		"all":            {inbox.StreamFilter{}, []int64{blocked, gap, plain}},
		"source":         {inbox.StreamFilter{Source: "orders"}, []int64{blocked, gap, plain}},
		"other source":   {inbox.StreamFilter{Source: "stripe"}, nil},
		"route":          {inbox.StreamFilter{Route: "fulfil"}, []int64{blocked, gap, plain}},
		"other route":    {inbox.StreamFilter{Route: "other"}, nil},
		"gap":            {inbox.StreamFilter{Gap: true}, []int64{gap}},
		"blocked":        {inbox.StreamFilter{Blocked: true}, []int64{blocked}},
		"standing still": {inbox.StreamFilter{Blocked: true, Gap: true}, []int64{blocked, gap}},
		"first page":     {inbox.StreamFilter{Limit: 2}, []int64{blocked, gap}},
		"next page":      {inbox.StreamFilter{Limit: 2, Before: gap}, []int64{plain}},
	} {
		if got := list(c.filter); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	rows, err := inboxtest.Rows(b.lister.Streams(t.Context(), inbox.StreamFilter{}))
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
	b := newStreamBook(t)
	id := b.stream("a/b", "2")
	b.effect("a/b", 2, inbox.EffectDone)
	for n := 20; n >= 6; n-- {
		b.effect("a/b", n, inbox.EffectHeld)
	}
	b.effect("a", 3, inbox.EffectHeld) // another key
	b.gap(id)
	for _, ref := range []string{fmt.Sprint(id), "orders/fulfil/a/b"} {
		d := b.show(ref)
		if d.ID != id || d.MissingFrom != "3" || d.MissingTo != "5" || d.Held != 15 || len(d.Waiting) != 10 {
			t.Fatalf("%s: %+v", ref, d)
		}
		if d.Waiting[0].Number != "6" || d.Waiting[9].Number != "15" || d.Waiting[0].State != "held" || !strings.HasPrefix(d.Waiting[0].EventID, "a/b-6-") {
			t.Errorf("%s: %+v", ref, d.Waiting)
		}
	}
	dead, running := b.effect("a/b", 3, inbox.EffectDead), b.effect("a/b", 1, inbox.EffectClaimed)
	b.blocked(id, dead)
	storetest.Exec(t, b.pool, `UPDATE stream SET in_flight = $2 WHERE id = $1`, id, running)
	d := b.show(fmt.Sprint(id))
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
		"": inbox.ErrStreamReference, "orders": inbox.ErrStreamReference, "orders/fulfil": inbox.ErrStreamReference,
		"orders/fulfil/": inbox.ErrStreamReference, "/fulfil/a": inbox.ErrStreamReference, "-1": inbox.ErrStreamReference, "0": inbox.ErrStreamReference,
	} {
		if _, err := b.lister.Stream(t.Context(), ref); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", ref, err, want)
		}
	}
}

func TestSkippingAGapWakesTheNext(t *testing.T) {
	t.Parallel()
	b := newStreamBook(t)
	id := b.stream("a", "1")
	b.effect("a", 1, inbox.EffectDone)
	next, later := b.effect("a", 4, inbox.EffectHeld), b.effect("a", 5, inbox.EffectHeld)
	b.gap(id)
	pass := inbox.PassStream{Stream: id, As: inbox.StreamSkip, MissingTo: "3", Actor: "ann", Reason: "the shop lost them"}
	for name, wrong := range map[string]inbox.PassStream{
		"another gap":   {Stream: id, As: inbox.StreamSkip, MissingTo: "2", Actor: "ann", Reason: "r"},
		"not looked at": {Stream: id, As: inbox.StreamSkip, Actor: "ann", Reason: "r"},
		"a blocker":     {Stream: id, As: inbox.StreamSkip, Blocker: next, Actor: "ann", Reason: "r"},
		"unblock":       {Stream: id, As: inbox.StreamUnblock, MissingTo: "3", Actor: "ann", Reason: "r"},
	} {
		if err := b.store.PassStream(t.Context(), wrong); !errors.Is(err, inbox.ErrStream) {
			t.Errorf("%s: %v, want ErrStream", name, err)
		}
	}
	if err := b.store.PassStream(t.Context(), inbox.PassStream{Stream: id, As: inbox.StreamSkip, MissingTo: "3", Actor: "ann"}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
	if err := b.store.PassStream(t.Context(), inbox.PassStream{Stream: id + 1, As: inbox.StreamSkip, Actor: "ann", Reason: "r"}); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("no such stream: %v", err)
	}
	if err := b.store.PassStream(t.Context(), inbox.PassStream{Stream: id, As: "jump", Actor: "ann", Reason: "r"}); err == nil {
		t.Error("an unknown way was taken")
	}
	if d := b.show(fmt.Sprint(id)); d.Applied != "1" || d.GapSince == nil || len(b.audited(id)) != 0 {
		t.Fatalf("something was changed: %+v", d)
	}
	if err := b.store.PassStream(t.Context(), pass); err != nil {
		t.Fatal(err)
	}
	if d := b.show(fmt.Sprint(id)); d.Applied != "3" || d.GapSince != nil {
		t.Errorf("the stream is %+v", d.StreamRow)
	}
	if state, woken := b.standing(next); state != "pending" || !woken {
		t.Errorf("the next one is %s, woken %t", state, woken)
	}
	if state, woken := b.standing(later); state != "held" || woken {
		t.Errorf("the one after is %s, woken %t", state, woken)
	}
	entries := b.audited(id)
	if len(entries) != 1 || entries[0].Action != string(inbox.AuditStreamSkip) || entries[0].Actor != "ann" || entries[0].Reason != "the shop lost them" ||
		!strings.Contains(string(entries[0].After), `"2 to 3"`) {
		t.Errorf("audited: %+v", entries)
	}
	if err := b.store.PassStream(t.Context(), pass); !errors.Is(err, inbox.ErrStream) {
		t.Errorf("skipped twice: %v", err)
	}
}

func TestSkippingABlockerWakesTheNext(t *testing.T) {
	t.Parallel()
	for _, state := range []inbox.EffectState{inbox.EffectDead, inbox.EffectIndeterminate} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			b := newStreamBook(t)
			id := b.stream("a", "1")
			blocker, next := b.effect("a", 2, state), b.effect("a", 3, inbox.EffectHeld)
			b.blocked(id, blocker)
			pass := inbox.PassStream{Stream: id, As: inbox.StreamSkip, Blocker: blocker, Actor: "ann", Reason: "sent by hand"}
			if err := b.store.PassStream(t.Context(), inbox.PassStream{Stream: id, As: inbox.StreamSkip, Blocker: next, Actor: "ann", Reason: "r"}); !errors.Is(err, inbox.ErrStream) {
				t.Errorf("another blocker: %v", err)
			}
			if err := b.store.PassStream(t.Context(), pass); err != nil {
				t.Fatal(err)
			}
			var reason string
			if err := b.pool.QueryRow(t.Context(), `SELECT state || ' ' || reason FROM effect WHERE id = $1`, blocker).Scan(&reason); err != nil || reason != "skipped discarded" {
				t.Errorf("the blocker is %q, %v", reason, err)
			}
			if d := b.show(fmt.Sprint(id)); d.BlockedBy != nil {
				t.Errorf("the stream is %+v", d.StreamRow)
			}
			if state, woken := b.standing(next); state != "pending" || !woken {
				t.Errorf("the next one is %s, woken %t", state, woken)
			}
			if entries := b.audited(id); len(entries) != 1 || !strings.Contains(string(entries[0].After), blocker.String()) {
				t.Errorf("audited: %+v", entries)
			}
		})
	}
}

func TestUnblockingLeavesTheBlockerAtRest(t *testing.T) {
	t.Parallel()
	b := newStreamBook(t)
	id := b.stream("a", "1")
	blocker, next := b.effect("a", 2, inbox.EffectDead), b.effect("a", 3, inbox.EffectHeld)
	b.blocked(id, blocker)
	pass := inbox.PassStream{Stream: id, As: inbox.StreamUnblock, Blocker: blocker, Actor: "ann", Reason: "later"}
	if err := b.store.PassStream(t.Context(), pass); err != nil {
		t.Fatal(err)
	}
	if state, _ := b.standing(blocker); state != "dead" {
		t.Errorf("the blocker is %s", state)
	}
	if d := b.show(fmt.Sprint(id)); d.BlockedBy != nil || d.Applied != "2" {
		t.Errorf("the stream is %+v", d.StreamRow)
	}
	if state, woken := b.standing(next); state != "pending" || !woken {
		t.Errorf("the next one is %s, woken %t", state, woken)
	}
	if entries := b.audited(id); len(entries) != 1 || entries[0].Action != string(inbox.AuditStreamUnblock) {
		t.Errorf("audited: %+v", entries)
	}
	// Where there is no number to go past, what may still happen blocks all that comes.
	arrival := b.stream("b", "")
	unknown := b.effect("b", 5, inbox.EffectIndeterminate)
	b.blocked(arrival, unknown)
	if err := b.store.PassStream(t.Context(), inbox.PassStream{Stream: arrival, As: inbox.StreamUnblock, Blocker: unknown, Actor: "ann", Reason: "r"}); !errors.Is(err, inbox.ErrStream) {
		t.Errorf("in order of arrival: %v", err)
	}
}

func TestStreamStats(t *testing.T) {
	t.Parallel()
	b := newStreamBook(t)
	if s, err := inbox.ReadStreamStats(t.Context(), b.pool, b.route, time.Minute); err != nil || s.Held+s.Gaps+s.Blocked+len(s.Long) != 0 || s.OldestGap != 0 {
		t.Errorf("empty: %+v, %v", s, err)
	}
	gap, blocked := b.stream("a", "1"), b.stream("b", "1")
	b.effect("a", 3, inbox.EffectHeld)
	b.effect("a", 4, inbox.EffectHeld)
	b.effect("b", 3, inbox.EffectHeld)
	b.effect("b", 9, inbox.EffectPending)
	b.effect("b", 1, inbox.EffectDone)
	b.gap(gap)
	b.blocked(blocked, b.effect("b", 2, inbox.EffectDead))
	s, err := inbox.ReadStreamStats(t.Context(), b.pool, b.route, 5*time.Minute)
	if err != nil || s.Held != 3 || s.Gaps != 1 || s.Blocked != 1 || s.OldestGap < 10*time.Minute || s.OldestGap > 20*time.Minute ||
		len(s.Long) != 1 || s.Long[0].Stream != gap {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := inbox.ReadStreamStats(t.Context(), b.pool, b.route, time.Hour); err != nil || len(s.Long) != 0 {
		t.Errorf("no gap is an hour old: %+v, %v", s, err)
	}
	if s, err := inbox.ReadStreamStats(t.Context(), b.pool, b.route+1, time.Hour); err != nil || s.Held != 0 || s.Gaps != 0 {
		t.Errorf("another route: %+v, %v", s, err)
	}
}

// What is read while everything goes on reads a few rows from one end of an index,
// however many effects and streams there are.
func TestStreamPlans(t *testing.T) {
	t.Parallel()
	b := newStreamBook(t)
	tx, err := b.pool.Begin(t.Context())
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
		inbox.ReadStreamStatsSQL: {[]any{b.route, 10}, []string{"effect_open_idx", "stream_gap_idx", "stream_blocked_idx"}},
		inbox.WaitingEffects:     {[]any{b.route, hash, 10}, []string{"effect_open_idx"}},
		inbox.MissingNumbers:     {[]any{1}, []string{"stream_pkey", "effect_sequence_idx"}},
		inbox.ReadPlaces:         {[]any{inbox.NewID(time.Now()), ""}, []string{"effect_event_route_item_key", "stream_key", "Backward using effect_sequence_idx"}},
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
