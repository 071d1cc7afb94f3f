package jobs_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/jobs"
)

// A row that another session keeps locked delays only itself, in every part of a sweep: the
// wake-ups that are lost, the leases that have ended, with an order and without, and the held
// effects that are free. The log names who has the row. Before, one such row ended the whole sweep.
func TestALockedRowHoldsUpNoOtherOfASweep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.patientWork()
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}, once: {Mode: sequence.Latest}}
	store := b.store("node-1")
	var expired, free []inbox.ID // the first of each kind is locked
	var locked [][2]string       // table and condition
	lock := func(table, condition string) { locked = append(locked, [2]string{table, condition}) }
	for i := range 4 {
		for _, route := range []string{repeatable, once} {
			key := fmt.Sprint("next", i)
			ids := b.sequenced(route, key, "1")
			b.claim(store, ids[0])
			ids = append(ids, b.sequenced(route, key, "2")...)
			b.try(store, ids[1])
			expired = append(expired, ids[0])
			if i == 0 {
				lock("effect", fmt.Sprintf("id = '%s'", ids[1])) // only to be moved, since it is next
			}
		}
		ids := b.admit(within, 2)
		b.exec(`UPDATE effect SET state = 'claimed', lease_token = gen_random_uuid(), attempts = 1, lease_until = now(), next_at = now() WHERE id = ANY ($1)`, ids)
		expired = append(expired, ids...)
		if i == 0 {
			lock("effect", fmt.Sprintf("id = '%s'", ids[0]))
			lock("inbox_event", fmt.Sprintf("id = '%s'", ids[1]))
		}
		ids = b.sequenced(repeatable, fmt.Sprint("stream", i), "1")
		b.claim(store, ids[0])
		expired = append(expired, ids[0])
		if i == 0 {
			lock("stream", "key_label = 'stream0'")
		}
		ids = b.sequenced(repeatable, fmt.Sprint("free", i), "1")
		b.exec(`UPDATE effect SET state = 'held', next_at = NULL WHERE id = $1`, ids[0])
		free = append(free, ids[0])
		if i == 0 {
			lock("effect", fmt.Sprintf("id = '%s'", ids[0]))
		}
	}
	lost := b.admit(within, 4)
	lock("effect", fmt.Sprintf("id = '%s'", lost[0]))
	b.exec(`TRUNCATE river_job`)
	b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s' WHERE id = ANY ($1)`, expired)
	let := make([]func(), 0, len(locked))
	for _, l := range locked {
		let = append(let, b.stranger(`SELECT FROM `+l[0]+` WHERE `+l[1]+` FOR UPDATE`))
	}

	var log logtest.Buffer
	now := time.Now()
	s := b.sweeper(func(cfg *jobs.SweeperConfig) {
		cfg.Pool, cfg.Logger = b.work, slog.New(slog.NewTextHandler(&log, nil))
		cfg.Now = func() time.Time { now = now.Add(time.Millisecond); return now }
	})
	report, err := s.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Of the leases three wait: a newer version is locked, the effect itself, its stream. The sweep needs neither
	// the row of an event, nor the next of a stream whose first is tried again.
	if n := b.states(expired, "claimed"); n != 3 || b.states(free, "held") != 1 || b.count(`SELECT count(*) FROM river_job j JOIN effect e ON e.job_id = j.id WHERE e.id = ANY ($1)`, lost) != len(lost)-1 {
		t.Errorf("%+v, %d leases are left", report, n)
	}
	if report.Left != 4 || !strings.Contains(log.String(), `application="a stranger"`) || !strings.Contains(log.String(), "role=") || !strings.Contains(log.String(), "pid=") {
		t.Errorf("%d left out; the log says %q", report.Left, log.String())
	}
	for _, l := range let {
		l()
	}
	// The server releases the locks of a closed connection a moment later.
	b.eventually("what was left out, after the locks", func() bool {
		return b.sweep(s).Left == 0 && b.states(expired, "claimed") == 0 && b.states(free, "held") == 0
	})
}
