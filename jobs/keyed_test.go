package jobs_test

import (
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

var keyedEffects = flag.Int("keyed-effects", 300, "effects with keys inside the database")

// Effects that share a transaction ask for their keys in it: of those with one
// key one happens, in whichever group and on whichever node, also beside one that
// fails and gives up its group.
func TestKeyedEffectsInGroups(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := *keyedEffects
	const shared = 3 // effects of one key
	b.exec(`CREATE TABLE applied (key text)`)
	b.exec(`CREATE FUNCTION apply_event(event jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO applied VALUES (event->>'type');
		IF event->>'type' = 'poison' THEN RAISE EXCEPTION 'canary'; END IF;
	END $$`)
	ids := b.admit(within, n)
	for i, id := range ids {
		b.exec(`UPDATE inbox_event SET type = $2 WHERE id = $1`, id, fmt.Sprint("key ", i/shared))
	}
	b.exec(`UPDATE inbox_event SET type = 'poison' WHERE id = $1`, ids[n/2])
	kind, err := sql.New(sql.Config{Call: "apply_event"})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for node := range 2 {
		b.client(jobs.Config{
			Store: b.store(fmt.Sprint("node-", node)), MaxWorkers: 100, Logger: slog.New(slog.DiscardHandler), Routes: b.keyed("event.type"),
			Transactionals: map[string]effect.Transactional{within: kind},
		})
	}
	b.within(5*time.Minute, "all at their end", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state IN ('done', 'duplicate', 'dead')`) == n
	})
	t.Logf("%d effects in %s", n, time.Since(began))
	if got := b.count(`SELECT count(*) - count(DISTINCT key) FROM applied`); got != 0 {
		t.Errorf("%d happened again", got)
	}
	keys := b.count(`SELECT count(DISTINCT type) FROM inbox_event WHERE type <> 'poison'`)
	if got := b.count(`SELECT count(*) FROM applied`); got != keys {
		t.Errorf("%d happened, of %d keys", got, keys)
	}
	if got := b.count(`SELECT count(*) FROM effect e JOIN effect o ON o.id = e.duplicate_of JOIN inbox_event v ON v.id = e.event_id
		JOIN inbox_event w ON w.id = o.event_id WHERE e.state = 'duplicate' AND o.state = 'done' AND v.type = w.type AND e.attempts = 0`); got != n-keys-1 {
		t.Errorf("%d are duplicates of one that is done and has their key, want %d", got, n-keys-1)
	}
	if r := b.row(ids[n/2]); r.State != string(inbox.EffectDead) || r.Reason != reasons.SQL {
		t.Errorf("%+v, want dead", r)
	}
}
