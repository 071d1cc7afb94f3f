package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/move"
)

// moving has a source with an ordered route and one without an order, in the database HOME.
const moving = `
targets:
  ledger: { kind: forward, url: %q, idempotent: true, allow: [127.0.0.0/8] }
  ordered: { kind: forward, url: %q, idempotent: true, allow: [127.0.0.0/8] }
sources:
  github:
    provider: github
    secrets: [env:SECRET]
    database: HOME
    routes:
      - { name: note, target: ledger }
      - { name: apply, target: ordered, order: { mode: arrival, key: body.stream } }
`

// movingGroup starts a process in which github is in the database default.
func movingGroup(t *testing.T) (*groupProcess, *ledger) {
	t.Helper()
	p, l := newGroup(t), newLedger(t, nil)
	databases, _, _ := strings.Cut(p.text, "tenants:")
	p.text = databases + fmt.Sprintf(moving, l.URL, l.URL+"/ordered")
	p.at("default")
	p.start()
	return p, l
}

// at writes a configuration with the home of github.
func (p *groupProcess) at(database string) {
	p.t.Helper()
	p.write(strings.Replace(p.text, "HOME", database, 1))
}

// deliver delivers an event of a stream to github, and returns the status.
func (p *groupProcess) deliver(stream int, n int64) int {
	body := fmt.Appendf(nil, `{"action":"opened","number":%d,"stream":"s%d"}`, n, stream)
	return deliverTo(p.t, "http://"+p.PublicAddr().String()+"/in/github", int64(stream)*1_000_000+n, body)
}

func (p *groupProcess) move(ctx context.Context, to string) (move.Progress, error) {
	from := map[string]string{"default": "eu", "eu": "default"}[to]
	m := move.Move{From: move.Database{Name: from, Pool: p.pools[from]}, To: move.Database{Name: to, Pool: p.pools[to]}, Source: "github", Actor: "ann", Reason: "test"}
	return m.Run(ctx)
}

// A source moves under load, and the move is interrupted 20 times. Each event is carried out once, and those of a stream in the order of their
// answers. Duplicates of events from before, during and after the move are recognised.
func TestMoveUnderLoad(t *testing.T) {
	t.Parallel()
	const streams, interruptions = 4, 20
	p, l := movingGroup(t)
	var done atomic.Bool
	var sent [streams]int64
	var refused, repeated atomic.Int64
	var sending sync.WaitGroup
	for stream := range streams {
		sending.Go(func() {
			for n := int64(1); !done.Load(); n++ {
				for p.deliver(stream, n) != http.StatusOK {
					refused.Add(1)
					<-time.After(20 * time.Millisecond)
				}
				sent[stream] = n
				if status := p.deliver(stream, 1+rand.Int64N(n)); status == http.StatusOK {
					repeated.Add(1)
				}
			}
		})
	}
	inboxtest.Until(t, "some events to be recorded", func() bool {
		return p.count("default", `SELECT count(*) FROM inbox_event`) > 50
	})
	cut := 0
	for {
		ctx, cancel := context.WithCancel(t.Context())
		if cut < interruptions {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(1+cut)*time.Millisecond)
		}
		_, err := p.move(ctx, "eu")
		interrupted := ctx.Err() != nil
		cancel()
		if err == nil {
			break
		}
		if !interrupted {
			t.Fatalf("after %d interruptions: %v", cut, err)
		}
		cut++
	}
	if cut < interruptions {
		t.Errorf("the move was interrupted %d times, want %d", cut, interruptions)
	}
	var after int64
	inboxtest.Until(t, "events in the other database", func() bool {
		after = p.count("eu", `SELECT count(*) FROM inbox_event WHERE NOT copied`)
		return after > 50
	})
	done.Store(true)
	sending.Wait()
	total := int64(0)
	for _, n := range sent {
		total += n
	}
	for _, database := range []string{"default", "eu"} {
		inboxtest.Until(t, "the effects of "+database, func() bool {
			return p.count(database, `SELECT count(*) FROM effect WHERE state NOT IN ('done', 'skipped')`) == 0
		})
	}
	before := p.count("default", `SELECT count(*) FROM inbox_event`)
	after = p.count("eu", `SELECT count(*) FROM inbox_event WHERE NOT copied`)
	if copied := p.count("eu", `SELECT count(*) FROM inbox_event WHERE copied`); before+after != total || copied != before {
		t.Errorf("%d events were sent; %d are in the one database, of which %d were copied, and %d in the other", total, before, copied, after)
	}
	n, doubled := l.effects()
	if n != 2*total || len(doubled) > 0 {
		t.Errorf("%d effects of %d events on two routes, doubled: %v", n, total, doubled)
	}
	if len(l.wrong) > 0 {
		t.Errorf("out of order: %v", l.wrong)
	}
	t.Logf("%d events, %d before the move and %d after it; %d interruptions, %d deliveries were answered 503 and %d duplicates 200", total, before, after, cut, refused.Load(), repeated.Load())
	page := p.events(p.token("eu"), "", "source=github&limit=1000")
	if len(page.Data) != int(min(total, 1000)) {
		t.Errorf("the list of the source has %d rows, want %d", len(page.Data), min(total, 1000))
	}
	p.stop()
}

// A process finds a source that has moved, whatever its configuration says, and refuses a configuration that would lose its keys.
func TestMovedSourceIsFound(t *testing.T) {
	t.Parallel()
	p, _ := movingGroup(t)
	if status := p.deliver(0, 1); status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	inboxtest.Until(t, "the effects", func() bool { return p.count("default", `SELECT count(*) FROM effect WHERE state = 'done'`) == 2 })
	if _, err := p.move(t.Context(), "eu"); err != nil {
		t.Fatal(err)
	}
	inboxtest.Until(t, "the process to follow", func() bool { return p.deliver(0, 2) == http.StatusOK })
	p.stop()
	p.start() // with the configuration from before the move
	if !strings.Contains(p.log.String(), "the source has moved: write its database into the configuration") {
		t.Error("the log does not say that the configuration is to be changed")
	}
	for n := range int64(3) {
		if status := p.deliver(0, 1+n); status != http.StatusOK {
			t.Errorf("event %d was answered %d", 1+n, status)
		}
	}
	if n := p.count("eu", `SELECT count(*) FROM inbox_event WHERE NOT copied`); n != 2 {
		t.Errorf("eu has %d events, want the two that the other database did not have", n)
	}
	p.stop()
	p.at("eu")
	p.proxies["default"].SetReachable(false)
	p.start() // eu alone knows that the source lives there
	if status := p.deliver(0, 1); status != http.StatusOK {
		t.Errorf("while the database that it left is away, a duplicate was answered %d", status)
	}
	p.proxies["default"].SetReachable(true)
	p.stop()
}
