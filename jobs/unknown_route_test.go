package jobs_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/jobs"
)

// gone registers the routes anew without one that was there, and gives effects that
// wait for it.
func (b *bundle) gone(n int) []inbox.ID {
	b.tb.Helper()
	ids := b.admit(repeatable, n)
	b.exec(`INSERT INTO route (source_id, name, target, kind, digest, updated_at)
		SELECT source_id, 'old', 'elsewhere', kind, digest, updated_at - interval '1 h' FROM route WHERE name = 'repeatable'`)
	b.exec(`UPDATE effect SET route_id = (SELECT id FROM route WHERE name = 'old')`)
	return ids
}

// 10,000 effects of a route that was removed made 1,200 updates a second and a line of
// the log each, for ever. They wait for as long as this process has met the route, and
// come back a hundred a second at most.
func TestARemovedRouteCostsLittle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 20
	ids := b.gone(n)
	var ahead atomic.Int64
	var log logtest.Buffer
	b.client(jobs.Config{
		Now:    func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	putOff := func() int {
		return b.count(`SELECT count(*) FROM effect WHERE reason = 'route_unknown' AND attempts = 0`)
	}
	b.eventually("all to be put off", func() bool { return putOff() == n })
	ahead.Store(int64(10 * time.Minute))
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE effect SET next_at = now()`)
	b.sweep(b.sweeper(nil))
	long := func(than string) int {
		return b.count(`SELECT count(*) FROM effect WHERE next_at > now() + $1::text::interval`, than)
	}
	b.eventually("all to be put off for as long again", func() bool { return long("9 min 30 s") == n })
	b.eventually("all but one to be apart", func() bool {
		return b.count(`SELECT count(DISTINCT date_trunc('milliseconds', next_at)) FROM effect`) > n/2
	})
	if got := strings.Count(log.String(), "\n"); got > 4 {
		t.Errorf("%d lines in the log, want one a minute for all of them", got)
	}
	if strings.Count(log.String(), "effects of routes that no process knows") != 2 {
		t.Errorf("the log does not say it once a minute:\n%s", log.String())
	}
	if b.row(ids[0]).State != "pending" {
		t.Error("the effect does not wait")
	}
}

// However many effects wait for a route that nobody knows: after the first time they are
// looked at a hundred times a second at most, though each is put off for short at first.
func TestABacklogOfARemovedRouteIsPaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 500
	b.gone(n)
	var met atomic.Int64
	b.client(jobs.Config{Observe: func(r jobs.Report) {
		if r.Reason == reasons.Route {
			met.Add(1)
		}
	}})
	b.eventually("all to be put off", func() bool { return met.Load() >= n })
	began, before := time.Now(), met.Load()
	b.eventually("some rounds", func() bool { return time.Since(began) > 3*time.Second })
	if got, most := float64(met.Load()-before), 100*time.Since(began).Seconds()+100; got > most {
		t.Errorf("%.0f were put off again within %s, want %.0f at most", got, time.Since(began), most)
	}
	if before > n+200 {
		t.Errorf("%d were put off until each was once", before)
	}
}

// A route that comes back is not to wait for the end of an hour's pause.
func TestARouteThatComesBackIsCarriedOutAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 3)
	b.exec(`UPDATE effect SET next_at = now() + interval '1 h', reason = 'route_unknown'`)
	b.exec(`UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 h'`)
	b.exec(`UPDATE effect SET reason = 'status_503', state = 'retry', attempts = 1 WHERE id = $1`, ids[2]) // its wait is its own
	b.client(jobs.Config{})                                                                                // without a sweeper
	b.eventuallyState(ids[0], inbox.EffectDone)
	b.eventuallyState(ids[1], inbox.EffectDone)
	if row := b.row(ids[2]); row.State != "retry" {
		t.Errorf("%+v, want it to wait for its time", row)
	}
}

func TestClearingARoute(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change      string
		to          string
		max         int
		err         error
		moved, left int
		keys        string // the routes of the effect keys that are left to them
	}{
		"discarded":                    {``, "", 0, nil, 3, 0, ``},
		"may have happened, discarded": {`UPDATE effect SET unknown_since = now()`, "", 0, nil, 3, 0, `old old old`},
		"moved":                        {``, repeatable, 0, nil, 3, 0, ``},
		"more than allowed":            {``, "", 2, decide.ErrBound, 0, 0, ``},
		"not gone":                     {`UPDATE route SET updated_at = now()`, "", 0, inbox.ErrRouteKnown, 0, 0, ``},
		"to one that is gone":          {`UPDATE source SET updated_at = now()`, once, 0, inbox.ErrRouteGone, 0, 0, ``},
		"to one that is not":           {``, "other", 0, inbox.ErrNotFound, 0, 0, ``},
		"may have happened":            {`UPDATE effect SET unknown_since = now()`, repeatable, 0, nil, 0, 3, ``},
		"may have, to the same target": {`UPDATE effect SET unknown_since = now(); UPDATE route SET target = 'elsewhere' WHERE name = 'repeatable'`, repeatable, 0, nil, 3, 0, `repeatable repeatable repeatable`},
		"has a place in a sequence":    {`UPDATE effect SET sequence_key_hash = sha256('s'), sequence_number = 1`, repeatable, 0, nil, 0, 3, ``},
		"a worker has them":            {`UPDATE effect SET state = 'claimed', lease_token = gen_random_uuid(), lease_until = now() + interval '1 h'`, "", 0, nil, 0, 0, ``},
		"the other route has it as well": {`INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, finished_at)
			SELECT gen_random_uuid(), event_id, (SELECT id FROM route WHERE name = 'repeatable'), 1, 'x', 'done', now() FROM effect`, repeatable, 0, nil, 0, 3, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ids := b.gone(3)
			b.exec(`UPDATE effect SET rendered = 'old bytes', key_hash = sha256('k')`)
			b.exec(`INSERT INTO effect_key (route_id, key_hash, effect_id, received_at) SELECT route_id, sha256(id::text::bytea), id, now() FROM effect`)
			if c.change != "" {
				b.exec(c.change)
			}
			store := b.store("cli")
			ask := decide.ClearRoute{Source: "shop", Route: "old", To: c.to, Max: c.max, Actor: actor, Reason: why}
			dry := ask
			dry.DryRun = true
			before := b.text(`SELECT string_agg(e::text, ',' ORDER BY id) FROM effect e`)
			if _, err := decide.New(store).ClearRoute(t.Context(), dry); !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if b.text(`SELECT string_agg(e::text, ',' ORDER BY id) FROM effect e`) != before {
				t.Error("a dry run changed something")
			}
			out, err := decide.New(store).ClearRoute(t.Context(), ask)
			if !errors.Is(err, c.err) || out.Cleared != c.moved || out.Left != c.left {
				t.Fatalf("%+v, %v, want %d cleared and %d left", out, err, c.moved, c.left)
			}
			if n := b.count(`SELECT count(*) FROM audit WHERE actor = $1 AND reason = $2`, actor, why); n != c.moved {
				t.Errorf("%d entries in the audit, want %d", n, c.moved)
			}
			if c.moved == 0 {
				return
			}
			if keys := b.text(`SELECT coalesce(string_agg(r.name, ' '), '') FROM effect_key k JOIN route r ON r.id = k.route_id WHERE k.effect_id = ANY ($1)`, ids); keys != c.keys {
				t.Errorf("they have the keys of %q, want %q", keys, c.keys)
			}
			if c.to == "" {
				if n := b.count(`SELECT count(*) FROM effect WHERE state = 'skipped' AND reason = 'discarded'`); n != 3 {
					t.Errorf("%d are discarded", n)
				}
				return
			}
			same := strings.Contains(c.change, "elsewhere")
			if n := b.count(`SELECT count(*) FROM effect WHERE idempotency_key = 'key-' || id AND (rendered IS NOT NULL) = $1 AND (unknown_since IS NOT NULL) = $1`, same); n != 3 {
				t.Errorf("%d have the key, and the bytes that go with it", n)
			}
			target := &sink{idempotent: true}
			b.client(jobs.Config{Senders: senders(target)})
			for _, id := range ids {
				b.eventuallyState(id, inbox.EffectDone)
				if target.got(id) != 1 {
					t.Errorf("sent %d times", target.got(id))
				}
			}
		})
	}
}

// Sent again, it would wait for ever.
func TestNothingIsSentAgainToARouteThatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.gone(1)[0]
	b.exec(`UPDATE effect SET state = 'indeterminate', reason = 'timeout', next_at = NULL`)
	store := b.store("cli")
	err := decide.New(store).Resolve(t.Context(), decide.Resolve{Effect: id, As: decide.ResolveResend, Actor: actor, Reason: why})
	if !errors.Is(err, inbox.ErrRouteGone) {
		t.Errorf("%v, want ErrRouteGone", err)
	}
	many, err := decide.New(store).ResolveMany(t.Context(), decide.ResolveMany{
		Effects: []read.Unknown{{Effect: id, Version: 1}}, As: decide.ResolveResend, Actor: actor, Reason: why,
	})
	if err != nil || many.Gone != 1 || many.Resolved != 0 {
		t.Errorf("%+v, %v", many, err)
	}
	if row := b.row(id); row.State != "indeterminate" {
		t.Errorf("%+v", row)
	}
	if err := decide.New(store).Resolve(t.Context(), decide.Resolve{Effect: id, As: decide.ResolveDone, Actor: actor, Reason: why}); err != nil {
		t.Error(err)
	}
}
