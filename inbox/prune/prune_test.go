package prune_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/advisory"
)

// Each state at each age: what is left after one pass.
func TestPruneTakesWhatIsSettledAndOld(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	type want struct{ event, effect, body bool }
	cases := []struct {
		name  string
		ago   time.Duration
		state inbox.EffectState
		want  want
	}{
		{"young", 2 * storetest.Day, inbox.EffectDone, want{true, true, true}},
		{"body-old", 10 * storetest.Day, inbox.EffectDone, want{true, true, false}},
		{"effect-old", 20 * storetest.Day, inbox.EffectDone, want{true, false, false}},
		{"old", 40 * storetest.Day, inbox.EffectDone, want{false, false, false}},
		{"old-skipped", 40 * storetest.Day, inbox.EffectSkipped, want{false, false, false}},
		{"old-superseded", 40 * storetest.Day, inbox.EffectSuperseded, want{false, false, false}},
		{"within-slack", 30*storetest.Day + 30*time.Minute, inbox.EffectDone, want{true, false, false}},
		{"old-pending", 40 * storetest.Day, inbox.EffectPending, want{true, true, true}},
		{"old-claimed", 40 * storetest.Day, inbox.EffectClaimed, want{true, true, true}},
		{"old-retry", 40 * storetest.Day, inbox.EffectRetry, want{true, true, true}},
		{"old-held", 40 * storetest.Day, inbox.EffectHeld, want{true, true, true}},
		{"old-dead", 40 * storetest.Day, inbox.EffectDead, want{true, true, true}},
		{"old-indeterminate", 40 * storetest.Day, inbox.EffectIndeterminate, want{true, true, true}},
	}
	ids := map[string]inbox.ID{}
	for _, c := range cases {
		ids[c.name] = p.Deliver(t, c.name, c.ago, c.state)
	}
	counts, err := p.Pruner(t).DryRun(t.Context(), prune.Run{})
	if err != nil {
		t.Fatal(err)
	}
	report := p.Prune(t)
	for _, c := range cases {
		var got want
		got.event, got.effect, got.body = p.Has(t, ids[c.name])
		if got != c.want {
			t.Errorf("%s: left %+v, want %+v", c.name, got, c.want)
		}
	}
	if n := p.Count(t, `SELECT count(*) FROM effect_attempt a WHERE NOT EXISTS (SELECT FROM effect e WHERE e.id = a.effect_id)`); n > 0 {
		t.Errorf("%d attempts have lost their effect", n)
	}
	if report.Kept != 6 || len(report.Partitions) < 4 {
		t.Errorf("%d bodies were kept and %v dropped, want 6 and the old days", report.Kept, report.Partitions)
	}
	compare(t, counts, report)
	if again := p.Prune(t); len(again.Partitions) > 0 || again.Rows["effect"]+again.Rows["inbox_event"] > 0 {
		t.Errorf("a second pass found %+v", again)
	}
}

// compare holds the counts of a dry run against what the pass then removed.
func compare(t *testing.T, counts []prune.Count, report prune.Report) {
	t.Helper()
	want, got := map[string]int64{}, map[string]int64{}
	for _, c := range counts {
		if !strings.HasPrefix(c.Table, "inbox_body_") && c.Rows > 0 {
			want[c.Table] += c.Rows
		}
	}
	for table, n := range report.Rows {
		if n > 0 {
			got[table] = n
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the dry run said %v, the pass removed %v", want, got)
	}
	days := 0
	for _, c := range counts {
		if strings.HasPrefix(c.Table, "inbox_body_default_") {
			days++
		}
	}
	if days != len(report.Partitions) {
		t.Errorf("the dry run said %d days of bodies, the pass dropped %v", days, report.Partitions)
	}
}

// A dry run looks at so many rows of a table and says that there may be more.
func TestDryRunSaysAtLeast(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	for i := range 5 {
		p.Deliver(t, fmt.Sprint("old ", i), 40*storetest.Day, inbox.EffectDone)
	}
	for limit, want := range map[int64]prune.Count{
		3: {Class: "default", Table: "inbox_event", Rows: 3, AtLeast: true}, 5: {Class: "default", Table: "inbox_event", Rows: 5, AtLeast: true}, 6: {Class: "default", Table: "inbox_event", Rows: 5},
	} {
		pruner, err := prune.New(prune.Config{Pool: p.Pool, CountLimit: limit})
		if err != nil {
			t.Fatal(err)
		}
		counts, err := pruner.DryRun(t.Context(), prune.Run{})
		if err != nil || !slices.Contains(counts, want) {
			t.Errorf("with a limit of %d: %v, %+v, want %+v among them", limit, err, counts, want)
		}
		for _, c := range counts {
			if c.Rows > limit && c.Table != "effect_attempt" {
				t.Errorf("with a limit of %d, %d rows of %s were counted", limit, c.Rows, c.Table)
			}
		}
	}
}

// What is named is settled and goes, with its event; a pass before leaves it.
func TestPruneTakesWhatIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state inbox.EffectState
		name  prune.Prunable
	}{
		{inbox.EffectDead, prune.Dead}, {inbox.EffectIndeterminate, prune.Indeterminate}, {inbox.EffectHeld, prune.Held},
	} {
		t.Run(string(c.name), func(t *testing.T) {
			t.Parallel()
			p := storetest.NewPast(t)
			old, young := p.Deliver(t, "old", 40*storetest.Day, c.state), p.Deliver(t, "young", 2*storetest.Day, c.state)
			pending := p.Deliver(t, "pending", 40*storetest.Day, inbox.EffectPending)
			for _, other := range prune.Prunables() {
				if other != c.name && other != prune.Replay {
					p.Prune(t, other)
				}
			}
			if event, effect, body := p.Has(t, old); !event || !effect || !body {
				t.Fatal("it went though it was not named")
			}
			counts, err := p.Pruner(t).DryRun(t.Context(), prune.Run{Include: []prune.Prunable{c.name}})
			if err != nil {
				t.Fatal(err)
			}
			report := p.Prune(t, c.name)
			compare(t, counts, report)
			if event, effect, _ := p.Has(t, old); event || effect {
				t.Error("it stayed though it was named")
			}
			for _, id := range []inbox.ID{young, pending} {
				if event, effect, body := p.Has(t, id); !event || !effect || !body {
					t.Error("what is young or pending went with it")
				}
			}
			if n := p.Count(t, `SELECT count(*) FROM audit WHERE action = 'prune.include' AND actor = 'test' AND reason = 'a test'`); n != len(prune.Prunables())-1 {
				t.Errorf("%d audit entries", n)
			}
		})
	}
	t.Run("an unknown name, or nobody's", func(t *testing.T) {
		t.Parallel()
		p := storetest.NewPast(t)
		if _, err := p.Pruner(t).Run(t.Context(), prune.Run{Include: []prune.Prunable{"pending"}, Actor: "a", Reason: "b"}); !errors.Is(err, prune.ErrInclude) {
			t.Errorf("got %v, want ErrInclude", err)
		}
		if _, err := p.Pruner(t).Run(t.Context(), prune.Run{Include: []prune.Prunable{prune.Dead}}); !errors.Is(err, inbox.ErrUnexplained) {
			t.Errorf("got %v, want ErrUnexplained", err)
		}
	})
}

// An event that is a dead letter itself, and what an open replay lists.
func TestPruneLeavesDeadLettersAndReplays(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	unusable := inboxtest.Admission(p.Source, "evt_bad")
	unusable.Events[0].Unusable = "no id"
	bad := p.Accept(t, unusable, 40*storetest.Day).Items[0].ID
	discarded := inboxtest.Admission(p.Source, "evt_gone")
	discarded.Events[0].Unusable = "no id"
	gone := p.Accept(t, discarded, 40*storetest.Day).Items[0].ID
	p.Exec(t, `UPDATE inbox_event SET discarded_at = now() WHERE id = $1`, gone)
	replayed := p.Deliver(t, "replayed", 40*storetest.Day, inbox.EffectDone)
	over := p.Deliver(t, "over", 40*storetest.Day, inbox.EffectDone)
	passed := p.Deliver(t, "passed", 40*storetest.Day, inbox.EffectDone)
	for event, state := range map[inbox.ID]string{replayed: "planned", over: "cancelled", passed: "running"} {
		plan := inbox.NewID(time.Now())
		p.Exec(t, `INSERT INTO replay (id, state, scope, actor, position) VALUES ($1, $2, '{}', 'a', CASE $2 WHEN 'running' THEN 1 ELSE 0 END)`, plan, state)
		p.Exec(t, `INSERT INTO replay_item (replay_id, position, effect_id, event_id, route_id, action) SELECT $1, 1, id, event_id, route_id, 'replay' FROM effect WHERE event_id = $2`, plan, event)
	}
	p.Prune(t)
	for name, id := range map[string]inbox.ID{"unusable": bad, "in a replay": replayed} {
		if event, _, body := p.Has(t, id); !event || !body {
			t.Errorf("the event that is %s went: %t, %t", name, event, body)
		}
	}
	for name, id := range map[string]inbox.ID{"of a replay that is over": over, "that a run has come past": passed, "discarded": gone} {
		if event, _, body := p.Has(t, id); event || body {
			t.Errorf("the event that is %s stayed: %t, %t", name, event, body)
		}
	}
	p.Prune(t, prune.Dead, prune.Replay)
	for name, id := range map[string]inbox.ID{"unusable": bad, "in a replay": replayed} {
		if event, _, _ := p.Has(t, id); event {
			t.Errorf("the event that is %s stayed though it was named", name)
		}
	}
}

// Keys, streams, refusals, replays and the audit, each at its own horizon.
func TestPruneTakesEverythingElse(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	route := p.Source.Routes[0].ID
	owner := p.Deliver(t, "owner", 40*storetest.Day, inbox.EffectDone)
	dead := p.Deliver(t, "dead", 36*storetest.Day, inbox.EffectDead)
	p.Exec(t, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
		SELECT $2, sha256('owner'), id, now() - interval '40 days', now() - interval '38 days' FROM effect WHERE event_id = $1`, owner, route)
	p.Exec(t, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
		SELECT $2, sha256('asked'), gen_random_uuid(), now() - interval '40 days', now() - interval '35 days'`+"/* the dead one may ask */ WHERE $1::uuid IS NOT NULL", owner, route)
	p.Exec(t, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
		SELECT $2, sha256('dead'), id, now() - interval '40 days', now() - interval '39 days' FROM effect WHERE event_id = $1`, dead, route)
	p.Exec(t, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at) VALUES ($1, sha256('ever'), gen_random_uuid(), now() - interval '400 days')`, route)
	p.Exec(t, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
		VALUES ($1, sha256('tomb'), gen_random_uuid(), now() - interval '20 days', now() - interval '19 days')`, route)
	p.Exec(t, `INSERT INTO stream (route_id, key_hash, updated_at, blocked_by) VALUES
		($1, sha256('idle'), now() - interval '31 days', NULL), ($1, sha256('moving'), now() - interval '29 days', NULL),
		($1, sha256('blocked'), now() - interval '31 days', gen_random_uuid()), ($1, sha256('effects'), now() - interval '31 days', NULL)`, route)
	p.Exec(t, `UPDATE effect SET sequence_key_hash = sha256('effects') WHERE event_id = $1`, dead)
	for _, ago := range []time.Duration{8 * storetest.Day, 6 * storetest.Day} {
		p.Exec(t, `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, size)
			VALUES ($1, $2, now(), 'mismatch', '', false, 'POST', '/', '', 0)`, inbox.NewID(time.Now().Add(-ago)), p.Source.ID)
	}
	for _, state := range []string{"done", "running"} {
		plan := inbox.NewID(time.Now().Add(-91 * storetest.Day))
		p.Exec(t, `INSERT INTO replay (id, state, scope, actor) VALUES ($1, $2, '{}', 'a')`, plan, state)
		p.Exec(t, `INSERT INTO replay_item (replay_id, position, event_id, route_id, action) SELECT $1, n, gen_random_uuid(), 1, 'replay' FROM generate_series(1, 1200) n`, plan)
		p.Exec(t, `INSERT INTO replay_outcome (replay_id, position, outcome) SELECT $1, n, 'replayed' FROM generate_series(1, 1100) n`, plan)
	}
	for _, ago := range []time.Duration{61 * storetest.Day, 59 * storetest.Day} {
		p.Exec(t, `INSERT INTO audit (id, actor, action, object) VALUES ($1, 'a', 'b', 'c')`, inbox.NewID(time.Now().Add(-ago)))
	}
	for i, ago := range []time.Duration{25 * time.Hour, 23 * time.Hour, -time.Hour} { // since it has expired
		p.Exec(t, `INSERT INTO agent_session (id, digest, source_id, credential, run, created_at, expires_at)
			VALUES (gen_random_uuid(), sha256($1), $2, 'engine', '42', now() - interval '90 days', $3)`, []byte{byte(i)}, p.Source.ID, time.Now().Add(-ago))
		p.Exec(t, `INSERT INTO console_login (id, digest, actor, scopes, method, created_at, used_at, expires_at)
			VALUES (gen_random_uuid(), sha256($1), 'ann', '{admin}', 'link', now() - interval '90 days', now(), $2)`, []byte{byte(i)}, time.Now().Add(-ago))
		p.Exec(t, `INSERT INTO login_link (digest, actor, scopes, expires_at) VALUES (sha256($1), 'ann', '{admin}', $2)`, []byte{byte(i)}, time.Now().Add(-ago))
	}
	for i, left := range []time.Duration{-time.Hour, time.Hour} {
		p.Exec(t, `INSERT INTO api_request (key_hash, request_hash, lease, actor, operation, begun_at, lease_until, expires_at)
			VALUES (sha256($1), sha256($1), gen_random_uuid(), 'ann', 'erase_event', now(), now(), $2)`, []byte{byte(i)}, time.Now().Add(left))
	}
	p.Exec(t, `INSERT INTO stat_minute SELECT $1, 'recorded', now() - h * interval '1 hour', 0, '', 1 FROM unnest('{49,47}'::int[]) h`, p.Source.ID)
	p.Exec(t, `INSERT INTO stat_hour SELECT $1, 'took_5ms', now() - d * interval '1 day', 0, '', 1 FROM unnest('{15,13}'::int[]) d`, p.Source.ID)
	p.Exec(t, `INSERT INTO stat_flush SELECT gen_random_uuid(), 1, now() - d * interval '1 day' FROM unnest('{31,29}'::int[]) d`)
	counts, err := p.Pruner(t).DryRun(t.Context(), prune.Run{})
	if err != nil {
		t.Fatal(err)
	}
	report := p.Prune(t)
	compare(t, counts, report)
	want := map[string]int64{
		"stat_minute": 1, "stat_hour": 1, "stat_flush": 1,
		"agent_session": 1, "console_login": 1, "login_link": 1, "api_request": 1, "effect_key": 1, "effect": 1, "effect_attempt": 1, "inbox_event": 1, "stream": 1, "refusal": 1, "replay": 1, "replay_item": 1200, "audit": 1,
	}
	for table, n := range want {
		if report.Rows[table] != n {
			t.Errorf("%s: %d rows went, want %d", table, report.Rows[table], n)
		}
	}
	var left []string
	if err := p.Pool.QueryRow(t.Context(), `SELECT array_agg(k ORDER BY k) FROM unnest('{owner,asked,dead,ever,tomb}'::text[]) k
		JOIN effect_key e ON e.key_hash = sha256(k::bytea)`).Scan(&left); err != nil || !slices.Equal(left, []string{"asked", "dead", "ever", "tomb"}) {
		t.Errorf("keys left: %v, %v", left, err)
	}
	var outcomes string
	if err := p.Pool.QueryRow(t.Context(), `SELECT string_agg(x.state || ' ' || x.n, ', ')
		FROM (SELECT coalesce(r.state, 'none') AS state, count(*) AS n FROM replay_outcome o LEFT JOIN replay r ON r.id = o.replay_id GROUP BY 1) x`).Scan(&outcomes); err != nil || outcomes != "running 1100" {
		t.Errorf("outcomes left by the states of their plans: %s, %v", outcomes, err)
	}
}

// Pruning never restarts a sequence: a contiguous stream that has begun keeps the number
// it has come to, however long it is idle; one in another mode goes.
func TestPruneRestartsNoSequence(t *testing.T) {
	t.Parallel()
	for mode, left := range map[string]int{"contiguous": 1, "latest": 0} {
		p := storetest.NewPast(t)
		route := p.Source.Routes[0].ID
		p.Exec(t, `UPDATE route_version SET definition = jsonb_build_object('order', jsonb_build_object('mode', $2::text)) WHERE route_id = $1`, route, mode)
		p.Exec(t, `INSERT INTO stream (route_id, key_hash, updated_at, applied) VALUES
			($1, sha256('begun'), now() - interval '300 days', 5), ($1, sha256('empty'), now() - interval '300 days', NULL)`, route)
		counts, err := p.Pruner(t).DryRun(t.Context(), prune.Run{})
		if err != nil {
			t.Fatal(err)
		}
		compare(t, counts, p.Prune(t))
		var n int
		if err := p.Pool.QueryRow(t.Context(), `SELECT count(*) FROM stream WHERE applied = 5`).Scan(&n); err != nil || n != left {
			t.Errorf("mode %s: %d streams that have begun are left, want %d; %v", mode, n, left, err)
		}
	}
}

// What a stream that stands still will count as settled stays, or its number would
// be missing.
func TestPruneLeavesWhatStreamsCount(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	behind, ahead := p.Deliver(t, "behind", 40*storetest.Day, inbox.EffectDone), p.Deliver(t, "ahead", 40*storetest.Day, inbox.EffectSkipped)
	for number, id := range map[int]inbox.ID{5: behind, 8: ahead} {
		p.Exec(t, `UPDATE effect SET sequence_key_hash = sha256('k'), sequence_number = $2 WHERE event_id = $1`, id, number)
	}
	p.Exec(t, `INSERT INTO stream (route_id, key_hash, applied, gap_since) VALUES ($1, sha256('k'), 6, now())`, p.Source.Routes[0].ID)
	counts, err := p.Pruner(t).DryRun(t.Context(), prune.Run{})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, counts, p.Prune(t))
	_, one, _ := p.Has(t, behind)
	if _, other, _ := p.Has(t, ahead); one || !other {
		t.Errorf("number 5 is there: %t, number 8: %t; want the second alone", one, other)
	}
	p.Exec(t, `UPDATE stream SET applied = 8, gap_since = NULL`)
	p.Prune(t)
	if _, other, _ := p.Has(t, ahead); other {
		t.Error("number 8 stayed though it was passed")
	}
}

// A source that keeps its tombstones longer than its class, and one whose class
// was never registered.
func TestPruneGoesByTheSource(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	old := p.Deliver(t, "old", 40*storetest.Day, inbox.EffectDone)
	p.Exec(t, `UPDATE source SET tombstone = interval '90 days'`)
	p.Prune(t)
	if event, effect, _ := p.Has(t, old); !event || effect {
		t.Errorf("event %t, effect %t: the tombstone has to stay, the effect to go", event, effect)
	}
	p.Exec(t, `UPDATE source SET tombstone = NULL, class = 'gone'`)
	p.Exec(t, `UPDATE retention_class SET name = 'other', tombstone = interval '60 days'`)
	p.Prune(t)
	if event, _, _ := p.Has(t, old); !event {
		t.Error("a class that was never registered must count as the longest")
	}
	p.Exec(t, `DELETE FROM retention_class`)
	if report := p.Prune(t); len(report.Partitions) > 0 || report.Rows["inbox_event"] > 0 {
		t.Errorf("without any class, the pass removed %+v", report)
	}
}

// Two at once: one works, the other leaves.
func TestPruneRunsOnce(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	p.Deliver(t, "old", 40*storetest.Day, inbox.EffectDone)
	held, err := p.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec(t.Context(), `SELECT pg_advisory_lock($1::int, hashtext(current_schema()))`, advisory.Prune); err != nil {
		t.Fatal(err)
	}
	report, err := p.Pruner(t).Run(t.Context(), prune.Run{})
	if err != nil || report.Obtained || report.Complete || len(report.Rows) > 0 {
		t.Errorf("got %+v, %v, want a pass that was not obtained", report, err)
	}
	_ = held.Conn().Close(t.Context())
	held.Release()
	inboxtest.Until(t, "a lost connection to have lost its lock", func() bool {
		report, err := p.Pruner(t).Run(t.Context(), prune.Run{})
		return err == nil && report.Complete
	})
}
