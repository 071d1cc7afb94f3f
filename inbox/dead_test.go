package inbox_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/jobs"
)

// buried is a database with dead letters of several sorts, and as many effects
// that are not dead.
type buried struct {
	pool    *pgxpool.Pool
	lister  *inbox.Lister
	effects *inbox.Effects
	ids     map[string]inbox.ID // by event id: the effect's, or the event's if it has none
}

var nightfall = time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)

func newBuried(t *testing.T) *buried {
	t.Helper()
	pool := inboxtest.Pool(t)
	ctx := t.Context()
	registered, err := registry.Register(ctx, pool, []registry.Source{
		{Name: "stripe", Provider: "stripe", Class: "default", Routes: []registry.Route{
			{Name: "ledger", Target: "db", Kind: "sql", Digest: []byte{1}}, {Name: "bill", Target: "billing", Kind: "forward", Digest: []byte{1}},
		}},
		{Name: "github", Provider: "github", Class: "default", Routes: []registry.Route{{Name: "build", Target: "ci", Kind: "forward", Digest: []byte{1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "test"})
	if err != nil {
		t.Fatal(err)
	}
	b := &buried{pool: pool, lister: inboxtest.Lister(pool), effects: store, ids: map[string]inbox.ID{}}
	for i, row := range []struct{ source, route, id, kind, state, reason, code, said, admission string }{
		{"stripe", "bill", "evt_1", "invoice.paid", "dead", "attempts_exhausted", "503", "Closed for the Night", "ok"},
		{"stripe", "bill", "evt_2", "invoice.paid", "dead", "attempts_exhausted", "503", "closed for the night", "ok"},
		{"stripe", "bill", "evt_3", "charge.failed", "dead", "status_4xx", "404", "no such customer", "ok"},
		{"stripe", "ledger", "evt_4", "charge.failed", "dead", "sql_error", "23505", "", "ok"},
		{"github", "build", "guid_5", "push", "dead", "attempts_exhausted", "", "connection refused", "ok"},
		{"github", "build", "guid_6", "push", "dead", "mapping_failed", "", "map: no such key", "ok"},
		{"github", "", "~7", "", "", "", "", "the id is missing", "unusable"},
		{"stripe", "", "evt_8", "invoice.paid", "", "", "", "older than its tombstone", "beyond_retention"},
		{"stripe", "bill", "evt_9", "invoice.paid", "indeterminate", "timeout", "", "", "ok"},
		{"stripe", "bill", "evt_10", "invoice.paid", "done", "", "200", "", "ok"},
		{"github", "", "guid_11", "ping", "", "", "", "", "unrouted"},
	} {
		at := nightfall.Add(time.Duration(i) * time.Hour)
		id := inbox.NewID(at)
		storetest.Exec(t, pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, admission_detail, class, body_id,
			item, body_offset, body_length, id_unsigned, suspected_replay)
			VALUES ($1, $2, $3, $4, sha256('x'), $5, $6, nullif($7, ''), 'default', $1, 0, 0, 1, false, false)`,
			id, registered[row.source].ID, row.id, row.kind, at, row.admission, row.said)
		b.ids[row.id] = id
		if row.route == "" {
			continue
		}
		effect := inbox.NewID(at)
		b.ids[row.id] = effect
		storetest.Exec(t, pool, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, last_code, attempts, finished_at)
			VALUES ($1, $2, $3, $4, 'key', 1, nullif($5, ''), nullif($6, ''), 2, CASE WHEN $4 = 'done' THEN now() END)`,
			effect, id, registered[row.source].Routes[row.route].ID, row.state, row.reason, row.code)
		for attempt, said := range []string{"", row.said} {
			storetest.Exec(t, pool, `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, excerpt)
				VALUES ($1, $2, 1, 'automatic', 'n', $3, $3, 'retry', nullif($4, ''))`, effect, attempt+1, at.Add(time.Duration(attempt)*time.Minute), said)
		}
	}
	return b
}

// expect compares the event ids that a filter finds, listed and in groups.
func (b *buried) expect(t *testing.T, f inbox.DeadFilter, want string) {
	t.Helper()
	var each []string
	if err := b.lister.EachDead(t.Context(), f, func(row *inbox.DeadRow) error { each = append(each, row.EventID); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(each, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	groups, err := inboxtest.Rows(b.lister.DeadGroups(t.Context(), f))
	sum := 0
	for _, g := range groups {
		sum += g.Count
	}
	if err != nil || sum != len(each) {
		t.Errorf("groups of %d, %v, want %d", sum, err, len(each))
	}
}

// What used up its attempts is found, and classed, by why the last one failed: an
// address that is refused is the configuration's fault, and not a target's that did not
// answer.
func TestWhatGaveUpIsNarrowedByItsLastAttempt(t *testing.T) {
	t.Parallel()
	b := newBuried(t)
	storetest.Exec(t, b.pool, `UPDATE effect_attempt SET reason = CASE attempt WHEN 2 THEN 'address_refused' ELSE 'timeout' END WHERE effect_id = $1`, b.ids["guid_5"])
	for name, c := range map[string]struct {
		filter inbox.DeadFilter
		want   string
	}{
		"by the last reason":  {inbox.DeadFilter{Reason: "address_refused"}, "guid_5"},
		"not by an earlier":   {inbox.DeadFilter{Reason: "timeout"}, ""},
		"by the effect's own": {inbox.DeadFilter{Reason: "attempts_exhausted"}, "guid_5 evt_2 evt_1"},
		"by its class":        {inbox.DeadFilter{ErrorClass: inbox.ErrorConfiguration}, "guid_6 guid_5"},
		"of no other":         {inbox.DeadFilter{ErrorClass: inbox.ErrorNoAnswer}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.expect(t, c.filter, c.want)
		})
	}
}

func TestDeadLettersAreNarrowed(t *testing.T) {
	t.Parallel()
	b := newBuried(t)
	for name, c := range map[string]struct {
		filter inbox.DeadFilter
		want   string
	}{
		"newest first":        {inbox.DeadFilter{}, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1"},
		"by source":           {inbox.DeadFilter{Source: "github"}, "~7 guid_6 guid_5"},
		"by type":             {inbox.DeadFilter{Type: "invoice.paid"}, "evt_8 evt_2 evt_1"},
		"by route":            {inbox.DeadFilter{Route: "bill"}, "evt_3 evt_2 evt_1"},
		"by target":           {inbox.DeadFilter{Target: "db"}, "evt_4"},
		"by reason":           {inbox.DeadFilter{Reason: "attempts_exhausted"}, "guid_5 evt_2 evt_1"},
		"unusable":            {inbox.DeadFilter{Reason: "unusable"}, "~7"},
		"beyond retention":    {inbox.DeadFilter{Reason: "beyond_retention"}, "evt_8"},
		"answered 5xx":        {inbox.DeadFilter{ErrorClass: inbox.ErrorAnswer5xx}, "evt_2 evt_1"},
		"answered 4xx":        {inbox.DeadFilter{ErrorClass: inbox.ErrorAnswer4xx}, "evt_3"},
		"the database":        {inbox.DeadFilter{ErrorClass: inbox.ErrorDatabase}, "evt_4"},
		"no answer":           {inbox.DeadFilter{ErrorClass: inbox.ErrorNoAnswer}, "guid_5"},
		"the configuration":   {inbox.DeadFilter{ErrorClass: inbox.ErrorConfiguration}, "guid_6"},
		"the admission":       {inbox.DeadFilter{ErrorClass: inbox.ErrorAdmission}, "evt_8 ~7"},
		"by event id":         {inbox.DeadFilter{EventID: "evt_2"}, "evt_2"},
		"by text":             {inbox.DeadFilter{Text: "for the night"}, "evt_2 evt_1"},
		"by text of an event": {inbox.DeadFilter{Text: "TOMBSTONE"}, "evt_8"},
		"no pattern":          {inbox.DeadFilter{Text: "%"}, ""},
		"since":               {inbox.DeadFilter{Since: nightfall.Add(5 * time.Hour)}, "evt_8 ~7 guid_6"},
		"until":               {inbox.DeadFilter{Until: nightfall.Add(time.Hour)}, "evt_1"},
		"several":             {inbox.DeadFilter{Source: "stripe", Type: "charge.failed", Route: "bill"}, "evt_3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.expect(t, c.filter, c.want)
		})
	}
	one := errors.New("enough")
	if err := b.lister.EachDead(t.Context(), inbox.DeadFilter{}, func(*inbox.DeadRow) error { return one }); !errors.Is(err, one) {
		t.Errorf("%v", err)
	}
}

func TestDeadLettersAreGroupedAndPaged(t *testing.T) {
	t.Parallel()
	b := newBuried(t)
	groups, err := inboxtest.Rows(b.lister.DeadGroups(t.Context(), inbox.DeadFilter{}))
	if err != nil || len(groups) != 7 {
		t.Fatalf("%+v, %v", groups, err)
	}
	want := inbox.DeadGroup{
		Count: 2, Source: "stripe", Route: "bill", Target: "billing", Reason: "attempts_exhausted", Code: "503",
		First: nightfall.Add(time.Minute), Last: nightfall.Add(time.Hour + time.Minute), Example: b.ids["evt_2"],
	}
	got := groups[0]
	got.First, got.Last = got.First.UTC(), got.Last.UTC()
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	var paged []string
	for before := (inbox.ID{}); ; {
		rows, err := inboxtest.Rows(b.lister.Dead(t.Context(), inbox.DeadFilter{}, inbox.PageRequest{Before: before, Limit: 3}))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			paged = append(paged, row.EventID)
			if (row.Route == "") != (row.ID == row.Event) || row.DiedAt == nil {
				t.Errorf("%+v", row)
			}
		}
		if len(rows) < 3 {
			break
		}
		before = rows[2].ID
	}
	if got := strings.Join(paged, " "); got != "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1" {
		t.Errorf("pages give %s", got)
	}
}

func TestDiscardingDeadLetters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		discard func(b *buried) inbox.Discard
		want    string // what is still on the list
		err     error
	}{
		"by id":               {func(b *buried) inbox.Discard { return inbox.Discard{IDs: []inbox.ID{b.ids["evt_1"], b.ids["~7"]}} }, "evt_8 guid_6 guid_5 evt_4 evt_3 evt_2", nil},
		"by a filter":         {func(*buried) inbox.Discard { return inbox.Discard{Filter: inbox.DeadFilter{Source: "stripe"}} }, "~7 guid_6 guid_5", nil},
		"everything":          {func(*buried) inbox.Discard { return inbox.Discard{All: true} }, "", nil},
		"nothing said":        {func(*buried) inbox.Discard { return inbox.Discard{} }, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", inbox.ErrScope},
		"more than allowed":   {func(*buried) inbox.Discard { return inbox.Discard{All: true, Max: 7} }, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", inbox.ErrBound},
		"as many as allowed":  {func(*buried) inbox.Discard { return inbox.Discard{All: true, Max: 8} }, "", nil},
		"one that is not":     {func(b *buried) inbox.Discard { return inbox.Discard{IDs: []inbox.ID{b.ids["evt_1"], b.ids["evt_10"]}} }, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", inbox.ErrState},
		"one that is unknown": {func(b *buried) inbox.Discard { return inbox.Discard{IDs: []inbox.ID{inbox.NewID(nightfall)}} }, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", inbox.ErrNotFound},
		"an event with no fault": {func(b *buried) inbox.Discard { return inbox.Discard{IDs: []inbox.ID{b.ids["guid_11"]}} },
			"evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", inbox.ErrState},
		"a dry run": {func(*buried) inbox.Discard { return inbox.Discard{All: true, DryRun: true} }, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuried(t)
			d := c.discard(b)
			d.Actor, d.Reason = "ann", "paid by hand"
			done := 0
			d.Progress = func(n, _ int) { done = n }
			out, err := b.effects.Discard(t.Context(), d)
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			var left []string
			if err := b.lister.EachDead(t.Context(), inbox.DeadFilter{}, func(row *inbox.DeadRow) error { left = append(left, row.EventID); return nil }); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(left, " "); got != c.want {
				t.Errorf("left are %s, want %s", got, c.want)
			}
			entries, err := inboxtest.Rows(b.lister.Audit(t.Context(), inbox.AuditFilter{}))
			if err != nil || len(entries) != 8-len(left) || out.Discarded != len(entries) || done != out.Discarded {
				t.Errorf("%d entries, %+v, %d done, %v", len(entries), out, done, err)
			}
			for _, entry := range entries {
				var before map[string]any
				if err := json.Unmarshal(entry.Before, &before); err != nil || before["body_sha256"] == nil || entry.Actor != "ann" || entry.Reason != "paid by hand" {
					t.Errorf("%+v, %v", entry, err)
				}
			}
		})
	}
}

func TestADiscardedEffectIsSkippedAndKept(t *testing.T) {
	t.Parallel()
	b := newBuried(t)
	id := b.ids["evt_1"]
	storetest.Exec(t, b.pool, `UPDATE effect SET sequence_key_hash = sha256('s'), sequence_number = 7 WHERE id = $1`, id)
	storetest.Exec(t, b.pool, `INSERT INTO stream (route_id, key_hash, in_flight, blocked_by) SELECT route_id, sequence_key_hash, id, id FROM effect WHERE id = $1`, id)
	storetest.Exec(t, b.pool, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at) SELECT route_id, sha256('k'), id, now() FROM effect WHERE id = $1`, id)
	if _, err := b.effects.Discard(t.Context(), inbox.Discard{IDs: []inbox.ID{id}, Actor: "ann"}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := b.effects.Discard(t.Context(), inbox.Discard{IDs: []inbox.ID{id}, Actor: "ann", Reason: "paid by hand"}); err != nil {
		t.Fatal(err)
	}
	effect, err := b.lister.Effect(t.Context(), id)
	if err != nil || effect.State != "skipped" || effect.Reason != "discarded" || len(effect.AttemptRows) != 2 || effect.FinishedAt == nil {
		t.Errorf("%+v, %v", effect, err)
	}
	var blocked, keys int
	err = b.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM stream WHERE in_flight IS NOT NULL OR blocked_by IS NOT NULL), (SELECT count(*) FROM effect_key)`).Scan(&blocked, &keys)
	if err != nil || blocked != 0 || keys != 0 {
		t.Errorf("%d streams blocked, %d keys held, %v", blocked, keys, err)
	}
	if _, err := b.effects.Discard(t.Context(), inbox.Discard{IDs: []inbox.ID{id}, Actor: "ann", Reason: "again"}); !errors.Is(err, inbox.ErrState) {
		t.Errorf("twice: %v", err)
	}
}

// A reason is of the closed set, and so is every class of errors.
func TestEveryDeadLetterHasAClass(t *testing.T) {
	t.Parallel()
	b := newBuried(t)
	all := []reasons.Reason{reasons.BodyGone, reasons.Render, reasons.Mail5xx, reasons.Handler, reasons.LeaseExpired, reasons.Other, "never heard of"}
	for i, reason := range all {
		storetest.Exec(t, b.pool, `UPDATE effect SET reason = $2, last_code = NULL WHERE id = $1`, b.ids["evt_1"], string(reason))
		rows, err := inboxtest.Rows(b.lister.Dead(t.Context(), inbox.DeadFilter{EventID: "evt_1"}, inbox.PageRequest{}))
		if err != nil || len(rows) != 1 || !slices.Contains(inbox.ErrorClasses(), inbox.ErrorClass(rows[0].ErrorClass)) {
			t.Errorf("%d %s: %+v, %v", i, reason, rows, err)
		}
	}
}
