package consume_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/inbox/consume"
	"github.com/oncegate/oncegate/internal/broker"
)

// lanes is a broker in memory. Like Kafka it knows one position for each lane, up to which messages are acknowledged.
type lanes struct {
	mu       sync.Mutex
	messages []broker.Received
	index    map[string]int // of messages in their lanes, by their positions
	taken    map[string]int // by lane: how many of its messages are under way or acknowledged
	done     map[string]int // how many are acknowledged
	group    int            // messages under way
	log      []string
	closed   bool
	fail     error // of Take
}

func newLanes(perLane int, names ...string) *lanes {
	l := &lanes{index: map[string]int{}, taken: map[string]int{}, done: map[string]int{}}
	for i := range perLane {
		for _, lane := range names {
			at := fmt.Sprintf("%s/%d", lane, i)
			l.index[at] = i
			l.messages = append(l.messages, broker.Received{Lane: lane, Position: at, Body: fmt.Appendf(nil, "%s-%d", lane, i), Header: http.Header{}, At: time.Now()})
		}
	}
	return l
}

// indexOf returns the place of a message in its lane.
func (l *lanes) indexOf(m *broker.Received) int { return l.index[m.Position] }

// acknowledged returns how many messages of a lane are acknowledged.
func (l *lanes) acknowledged(lane string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[lane]
}

func (l *lanes) Take(ctx context.Context, n int) (out []broker.Received, err error) {
	l.mu.Lock()
	fail := l.fail
	for i := range l.messages {
		m := &l.messages[i]
		if fail == nil && len(out) < n && l.indexOf(m) == l.taken[m.Lane] {
			l.taken[m.Lane]++
			copied := *m
			copied.Header = m.Header.Clone()
			out = append(out, copied)
		}
	}
	l.group += len(out)
	l.mu.Unlock()
	if len(out) == 0 && fail == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return out, fail
}

func (l *lanes) Done(_ context.Context, messages []broker.Received) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range messages {
		m := &messages[i]
		l.done[m.Lane] = max(l.done[m.Lane], l.indexOf(m)+1)
		l.log = append(l.log, "done "+m.Position)
	}
	l.group -= len(messages)
	return nil
}

func (l *lanes) Return(_ context.Context, messages []broker.Received) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range messages {
		m := &messages[i]
		l.taken[m.Lane] = min(l.taken[m.Lane], l.indexOf(m))
		l.log = append(l.log, "returned "+m.Position)
	}
	l.group -= len(messages)
	return nil
}

func (l *lanes) Lag(context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	acknowledged := 0
	for _, n := range l.done {
		acknowledged += n
	}
	return int64(len(l.messages) - acknowledged), nil
}

func (l *lanes) Reach(context.Context) error { return nil }

func (l *lanes) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

func (l *lanes) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, text)
}

// doneOf returns how many messages of each lane are acknowledged, as a text.
func (l *lanes) doneOf() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.done)
}

var names = consume.Names{Position: "Oncegate-Broker-Position", Lane: "Oncegate-Broker-Lane", Time: "Oncegate-Broker-Time"}

// start starts a consumer of the lanes, inside of a bubble of synctest.
func start(t *testing.T, l *lanes, cfg consume.Config) *consume.Consumer {
	t.Helper()
	cfg.Source, cfg.Broker, cfg.Names, cfg.Logger = "orders", l, names, slog.New(slog.DiscardHandler)
	c, err := consume.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Start(t.Context())
	return c
}

func stop(t *testing.T, c *consume.Consumer, l *lanes) {
	t.Helper()
	if err := c.Stop(context.WithoutCancel(t.Context())); err != nil || !l.closed || l.group != 0 {
		t.Errorf("stop: %v, closed %t, %d messages neither acknowledged nor returned", err, l.closed, l.group)
	}
}

// pass lets d pass, and then lets everything that happens at that instant happen: a message that the consumer takes at the
// instant at which the test looks is neither acknowledged nor returned yet.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var settled = consume.Verdict{Settled: true}

// TestAcknowledgesAfterwards checks that no message is acknowledged before it is settled, and all of them afterwards.
func TestAcknowledgesAfterwards(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLanes(300, "a", "b", "c")
			c := start(t, l, consume.Config{Ordered: ordered, Deliver: func(_ context.Context, m *consume.Message) consume.Verdict {
				<-time.After(time.Millisecond)
				l.note("recorded " + m.Header.Get(names.Position))
				return settled
			}})
			pass(time.Minute)
			if l.doneOf() != "map[a:300 b:300 c:300]" {
				t.Errorf("acknowledged: %s", l.doneOf())
			}
			recorded := map[string]bool{}
			next := map[string]int{}
			for _, line := range l.log {
				what, at, _ := strings.Cut(line, " ")
				if what == "recorded" {
					lane, n, _ := strings.Cut(at, "/")
					if ordered && n != fmt.Sprint(next[lane]) {
						t.Fatalf("%s was passed on as number %d of its lane", at, next[lane])
					}
					next[lane]++
					recorded[at] = true
				} else if !recorded[at] {
					t.Fatalf("%s before it was recorded", line)
				}
			}
			if s := c.State(); s.Taken != 900 || s.Acknowledged != 900 || s.Returned != 0 || s.Errors != 0 || s.Lag != 0 || s.Error != "" {
				t.Errorf("%+v", s)
			}
			stop(t, c, l)
		})
	}
}

// TestUnsettledStopsItsLane checks that nothing behind an unsettled message of a lane is acknowledged, that the other lanes
// continue, and that the message is returned and comes again.
func TestUnsettledStopsItsLane(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLanes(10, "a", "b")
			began := time.Now()
			var since []time.Time
			freed := false // a-4 can be settled
			c := start(t, l, consume.Config{Ordered: ordered, Deliver: func(_ context.Context, m *consume.Message) consume.Verdict {
				l.mu.Lock()
				defer l.mu.Unlock()
				if m.Header.Get(names.Position) > "a/4" && m.Header.Get(names.Lane) == "a" && !freed && ordered {
					t.Errorf("%s was passed on before a-4 was settled", m.Body)
				}
				if string(m.Body) == "a-4" {
					freed = time.Since(began) >= 2*time.Minute
				}
				if string(m.Body) == "a-4" && !freed {
					since = append(since, m.Since)
					return consume.Verdict{Err: errors.New("the gate is unavailable")}
				}
				return settled
			}})
			pass(time.Minute)
			if l.doneOf() != "map[a:4 b:10]" {
				t.Errorf("ordered %t: acknowledged %s", ordered, l.doneOf())
			}
			if s := c.State(); s.Error != "the gate is unavailable" || s.Failing.Sub(began) > 30*time.Second || s.Returned == 0 || s.Lag < 6 {
				t.Errorf("%+v", s)
			}
			pass(2 * time.Minute)
			if l.doneOf() != "map[a:10 b:10]" {
				t.Errorf("ordered %t: acknowledged afterwards %s", ordered, l.doneOf())
			}
			if s := c.State(); s.Error != "" || !s.Failing.IsZero() {
				t.Errorf("afterwards: %+v", s)
			}
			if first, last := since[0], since[len(since)-1]; !first.Equal(began) || !last.Equal(first) {
				t.Errorf("the message was first passed on at %s, later at %s, and is from %s", first, last, began)
			}
			stop(t, c, l)
		})
	}
}

// TestHeadersCannotBeForged checks that a message cannot choose its position and its lane.
func TestHeadersCannotBeForged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(1, "a")
		l.messages[0].Header = http.Header{names.Position: {"forged"}, names.Lane: {"forged", "twice"}, "Oncegate-Broker-Other": {"x"}, "Ce-Id": {"1"}}
		l.messages[0].At = time.Now().Add(time.Hour) // by a clock that is wrong
		got := make(chan *consume.Message, 1)
		c := start(t, l, consume.Config{Deliver: func(_ context.Context, m *consume.Message) consume.Verdict {
			got <- m
			return settled
		}})
		m := <-got
		h := m.Header
		if !slices.Equal(h[names.Position], []string{"a/0"}) || !slices.Equal(h[names.Lane], []string{"a"}) || h.Get("Oncegate-Broker-Other") != "" || h.Get("Ce-Id") != "1" {
			t.Errorf("headers: %v", h)
		}
		if m.At.After(time.Now()) {
			t.Errorf("the message is from %s, and it is %s", m.At, time.Now())
		}
		stop(t, c, l)
	})
}

// TestPause checks that a paused consumer takes nothing, and that it returns what it took while the pause began.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(5, "a")
		asked, resumed := 0, false
		c := start(t, l, consume.Config{
			Deliver: func(context.Context, *consume.Message) consume.Verdict { return settled },
			Paused: func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				asked++
				return asked > 1 && !resumed // the pause begins between the question and the messages
			},
		})
		pass(time.Minute)
		if l.doneOf() != "map[]" {
			t.Errorf("acknowledged while it is paused: %s", l.doneOf())
		}
		if s := c.State(); s.Taken != 5 || s.Returned != 5 {
			t.Errorf("%+v", s)
		}
		l.mu.Lock()
		resumed = true
		l.mu.Unlock()
		pass(time.Minute)
		if l.doneOf() != "map[a:5]" {
			t.Errorf("acknowledged after the pause: %s", l.doneOf())
		}
		stop(t, c, l)
	})
}

// TestQuotaSlowsDown checks that a quota makes the consumer slower, refuses nothing, and is no failure.
func TestQuotaSlowsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(200, "a", "b")
		began, passed, extra := time.Now(), 0, 0
		seen := map[string]bool{}
		c := start(t, l, consume.Config{Deliver: func(_ context.Context, m *consume.Message) consume.Verdict {
			l.mu.Lock()
			defer l.mu.Unlock()
			if float64(passed) >= 10+10*time.Since(began).Seconds() { // 10/s
				return consume.Verdict{After: time.Second}
			}
			passed++
			if seen[string(m.Body)] {
				extra++
			}
			seen[string(m.Body)] = true
			return settled
		}})
		pass(90 * time.Second)
		if l.doneOf() != "map[a:200 b:200]" || extra > 100 {
			t.Errorf("acknowledged %s after %s, %d were passed on twice", l.doneOf(), time.Since(began), extra)
		}
		if s := c.State(); s.Error != "" || s.Errors > 0 {
			t.Errorf("a quota is a failure: %+v", s)
		}
		stop(t, c, l)
	})
}

// TestUsedUpQuota checks that a consumer does not take messages again and again while a quota is used up for long.
func TestUsedUpQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(10, "a")
		c := start(t, l, consume.Config{Deliver: func(context.Context, *consume.Message) consume.Verdict {
			return consume.Verdict{After: time.Hour}
		}})
		pass(10 * time.Minute)
		if s := c.State(); s.Taken > 600 || s.Returned != s.Taken || s.Error != "" {
			t.Errorf("%+v", s)
		}
		stop(t, c, l)
	})
}

// TestManyRefusals checks that a consumer whose messages are all refused stops before they are gone from the broker, and
// continues when one verifies.
func TestManyRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(1000, "a")
		wrong := true
		c := start(t, l, consume.Config{Group: 50, Deliver: func(context.Context, *consume.Message) consume.Verdict {
			l.mu.Lock()
			defer l.mu.Unlock()
			return consume.Verdict{Settled: true, Refused: wrong}
		}})
		pass(10 * time.Minute)
		if n := l.acknowledged("a"); n < 100 || n > 120 {
			t.Errorf("%d messages were refused within 10 minutes", n)
		}
		if s := c.State(); !strings.Contains(s.Error, "did not verify") {
			t.Errorf("the consumer says %q", s.Error)
		}
		l.mu.Lock()
		wrong = false
		l.mu.Unlock()
		pass(3 * time.Minute)
		if s := c.State(); l.acknowledged("a") != 1000 || s.Error != "" {
			t.Errorf("%d messages are acknowledged after the secret was corrected; the consumer says %q", l.acknowledged("a"), s.Error)
		}
		stop(t, c, l)
	})
}

// TestBrokerDown checks that a broker that is not there is tried again, with pauses.
func TestBrokerDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(3, "a")
		l.fail = errors.New("no connection to the broker")
		c := start(t, l, consume.Config{Deliver: func(context.Context, *consume.Message) consume.Verdict { return settled }})
		pass(5 * time.Minute)
		if s := c.State(); s.Error != "no connection to the broker" || s.Errors < 30 || s.Errors > 60 || !s.Reached.IsZero() {
			t.Errorf("%+v", s)
		}
		l.mu.Lock()
		l.fail = nil
		l.mu.Unlock()
		pass(time.Minute)
		if s := c.State(); s.Error != "" || l.doneOf() != "map[a:3]" {
			t.Errorf("afterwards: %+v, acknowledged %s", s, l.doneOf())
		}
		stop(t, c, l)
	})
}

// TestStopDrains checks that a stop settles and acknowledges what is under way, and returns what cannot be settled.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(4, "a", "b")
		c := start(t, l, consume.Config{Deliver: func(_ context.Context, m *consume.Message) consume.Verdict {
			<-time.After(time.Second)
			if string(m.Body) == "b-2" {
				return consume.Verdict{Err: errors.New("the gate is unavailable")}
			}
			return settled
		}})
		pass(500 * time.Millisecond)
		stop(t, c, l)
		if l.doneOf() != "map[a:4 b:2]" {
			t.Errorf("acknowledged %s", l.doneOf())
		}
	})
}

// TestLargeMessages checks that a group of large messages is followed by smaller groups.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(40, "a")
		large := make([]byte, 8<<20)
		for i := range l.messages {
			l.messages[i].Body = large
		}
		most := 0
		c := start(t, l, consume.Config{Group: 8, Deliver: func(context.Context, *consume.Message) consume.Verdict {
			l.mu.Lock()
			if l.done["a"] > 0 {
				most = max(most, l.group)
			}
			l.mu.Unlock()
			return settled
		}})
		pass(time.Minute)
		if n := l.acknowledged("a"); n != 40 || most > 2 {
			t.Errorf("%d acknowledged, %d of 8 MiB under way at once", n, most)
		}
		stop(t, c, l)
	})
}
