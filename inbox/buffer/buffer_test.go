package buffer_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/buffer"
	"github.com/oncegate/oncegate/inbox/consume"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/broker"
)

// fakeGate answers as a test says, and remembers what it was asked.
type fakeGate struct {
	mu    sync.Mutex
	err   error
	takes time.Duration
	got   []*inbox.Admission
}

func (g *fakeGate) Accept(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	g.mu.Lock()
	g.got = append(g.got, a)
	err, takes := g.err, g.takes
	g.mu.Unlock()
	<-time.After(takes)
	if err != nil {
		return inbox.Receipt{}, err
	}
	return inbox.Receipt{Items: make([]inbox.ItemReceipt, len(a.Events))}, nil
}

func (g *fakeGate) set(err error, takes time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err, g.takes = err, takes
}

func (g *fakeGate) asked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.got)
}

// fakeStream remembers what was published.
type fakeStream struct {
	mu       sync.Mutex
	failures []error // of the next messages
	down     error   // of every message
	got      []*broker.Message
}

func (s *fakeStream) Publish(_ context.Context, m *broker.Message) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return false, s.down
	}
	if len(s.failures) > 0 {
		err := s.failures[0]
		s.failures = s.failures[1:]
		return false, err
	}
	s.got = append(s.got, m)
	return false, nil
}

var shop = &inbox.Source{ID: 7, Name: "renamed", KeyName: "shop"}

func admission() *inbox.Admission {
	at := time.Date(2026, 5, 4, 3, 2, 1, 6000, time.UTC)
	return &inbox.Admission{
		Source: shop, Body: []byte("{\"a\":1}\n{\"b\":2}"), Headers: []byte(`{"X-Topic":["a"]}`), ReceivedAt: at, Tenant: "north", Traceparent: "00-1-2-01",
		IDUnsigned: true,
		Events: []inbox.NewEvent{
			{EventID: "e1", Type: "paid", OccurredAt: at.Add(-time.Hour), DatedAt: at.Add(-time.Minute), Offset: 0, Length: 7, Transmission: "t1", SequenceKey: "c", SequenceNumber: "9"},
			{Offset: 8, Length: 7, Unusable: "no id"},
		},
	}
}

type options struct {
	always  bool
	keyring *seal.Keyring
	secret  []byte
	ordered bool
	unknown bool // the process does not have the source
}

func newBuffer(t *testing.T, g *fakeGate, s *fakeStream, o options) *buffer.Buffer {
	t.Helper()
	b, err := buffer.New(buffer.Config{
		Gate: g, Stream: s, Name: "oncegate", Always: o.always, Keyring: o.keyring, Secret: o.secret, Now: time.Now,
		Ordered: func(*inbox.Source) bool { return o.ordered },
		Find: func(name string) *inbox.Source {
			if name != "shop" || o.unknown {
				return nil
			}
			return shop
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// received is a message as a consumer of the stream gets it.
func received(m *broker.Message) *consume.Message {
	header := http.Header{"Content-Type": {m.ContentType}}
	for _, a := range m.Attributes {
		header.Set("Ce-"+a.Name, a.Value)
	}
	return &consume.Message{Header: header, Body: m.Body}
}

// TestWhatIsBuffered checks which answers of the gate lead to the stream.
func TestWhatIsBuffered(t *testing.T) {
	t.Parallel()
	delivery := fmt.Errorf("%w: %w", gate.ErrUnavailable, gate.ErrDelivery)
	for name, c := range map[string]struct {
		err      error
		takes    time.Duration
		buffered bool
	}{
		"recorded":                  {},
		"recorded in time":          {takes: time.Second},
		"late":                      {takes: 3 * time.Second, buffered: true},
		"unavailable":               {err: gate.ErrUnavailable, buffered: true},
		"overloaded":                {err: gate.ErrOverloaded, buffered: true},
		"unavailable and late":      {err: gate.ErrUnavailable, takes: 3 * time.Second, buffered: true},
		"the delivery's own fault":  {err: delivery},
		"a refusal":                 {err: inbox.ErrNotFollowed},
		"a fault that is not known": {err: errors.New("x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, s := &fakeGate{err: c.err, takes: c.takes}, &fakeStream{}
				began := time.Now()
				receipt, err := newBuffer(t, g, s, options{}).Accept(t.Context(), admission())
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("answered after %s", took)
				}
				if got := errors.Is(err, buffer.ErrBuffered); got != c.buffered || (len(s.got) == 1) != c.buffered {
					t.Errorf("%v, %d messages", err, len(s.got))
				}
				if !c.buffered && !errors.Is(err, c.err) {
					t.Errorf("%v, the gate returned %v", err, c.err)
				}
				if c.err == nil && !c.buffered && len(receipt.Items) != 2 {
					t.Errorf("%+v", receipt)
				}
				<-time.After(time.Minute) // the gate answers at last
			})
		})
	}
}

// TestBothDown checks that a delivery that neither takes is not acknowledged, and that it is answered before the deadline.
func TestBothDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(t, &fakeGate{err: gate.ErrUnavailable}, &fakeStream{down: broker.ErrUnreachable}, options{})
		began := time.Now()
		_, err := b.Accept(t.Context(), admission())
		if !errors.Is(err, gate.ErrUnavailable) || errors.Is(err, buffer.ErrBuffered) || !errors.Is(err, broker.ErrUnreachable) {
			t.Error(err)
		}
		if took := time.Since(began); took > gate.DefaultDeadline {
			t.Errorf("answered after %s", took)
		}
		if s := b.State(); s.Failed != 1 || s.Buffered != 0 || s.Error == "" {
			t.Errorf("%+v", s)
		}
	})
}

// TestLeaderIsAway checks that a delivery is published again under the same id while the stream is without a leader.
func TestLeaderIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStream{failures: []error{broker.ErrLost, broker.ErrUnreachable, broker.ErrLost}}
		if _, err := newBuffer(t, &fakeGate{err: gate.ErrUnavailable}, s, options{}).Accept(t.Context(), admission()); !errors.Is(err, buffer.ErrBuffered) {
			t.Error(err)
		}
	})
}

// TestTooLarge checks that a delivery that the stream never takes is answered at once.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := newBuffer(t, &fakeGate{err: gate.ErrUnavailable}, &fakeStream{down: broker.ErrTooLarge}, options{}).Accept(t.Context(), admission())
		if !errors.Is(err, gate.ErrUnavailable) || !errors.Is(err, broker.ErrTooLarge) || time.Since(began) > 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestGateIsNotAsked checks that deliveries do not wait for a gate that does not work, except one in each second, and that a
// commit ends that.
func TestGateIsNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, s := &fakeGate{takes: time.Hour}, &fakeStream{}
		b := newBuffer(t, g, s, options{})
		accept := func() (took time.Duration) {
			began := time.Now()
			if _, err := b.Accept(t.Context(), admission()); err != nil && !errors.Is(err, buffer.ErrBuffered) {
				t.Error(err)
			}
			return time.Since(began)
		}
		if took := accept(); took != 2*time.Second {
			t.Errorf("the first waited %s", took)
		}
		for range 100 {
			if took := accept(); took > 0 {
				t.Errorf("one waited %s", took)
			}
		}
		if g.asked() != 1 || !b.State().Buffering || !b.Resting() {
			t.Errorf("asked %d times, %+v", g.asked(), b.State())
		}
		<-time.After(1100 * time.Millisecond)
		if took := accept(); took != 2*time.Second || g.asked() != 2 {
			t.Errorf("the trial waited %s, asked %d times", took, g.asked())
		}
		g.set(nil, 0)
		<-time.After(1100 * time.Millisecond)
		b.Committed()
		if b.State().Buffering || b.Resting() {
			t.Error("still buffering after a commit")
		}
		if accept(); g.asked() != 3 || len(s.got) != 102 {
			t.Errorf("asked %d times, %d messages", g.asked(), len(s.got))
		}
		<-time.After(2 * time.Hour)
	})
}

// TestRoundTrip checks that the gate gets what the receiver made, with and without a keyring, and that a sealed message shows
// nothing.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]options{"plain": {always: true}, "sealed": {always: true, keyring: ring(t, 1)}, "ordered": {always: true, ordered: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, s := &fakeGate{}, &fakeStream{}
			b := newBuffer(t, g, s, o)
			if _, err := b.Accept(t.Context(), admission()); !errors.Is(err, buffer.ErrBuffered) || g.asked() != 0 {
				t.Fatal(err, g.asked())
			}
			unordered, ordered := buffer.Subjects("oncegate")
			if want := map[bool]string{false: unordered, true: ordered}[o.ordered]; s.got[0].Place != strings.TrimSuffix(want, ">")+"shop" {
				t.Errorf("published to %s", s.got[0].Place)
			}
			if shown := bytes.Contains(s.got[0].Body, []byte("north")); shown == (o.keyring != nil) {
				t.Errorf("the content is shown: %t", shown)
			}
			if v := b.Admit(t.Context(), received(s.got[0])); !v.Settled || v.Err != nil {
				t.Fatalf("%+v", v)
			}
			want := admission()
			want.Buffered = true
			if !reflect.DeepEqual(g.got[0], want) {
				t.Errorf("%+v\nwant %+v", g.got[0], want)
			}
			if state := b.State(); state.Buffered != 1 || state.Admitted != 1 || state.Failed != 0 {
				t.Errorf("%+v", state)
			}
		})
	}
}

// TestAlwaysWithoutTheStream checks that the gate takes a delivery that the stream does not, unless it would overtake earlier ones.
func TestAlwaysWithoutTheStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		down    error
		ordered bool
		took    time.Duration
	}{
		"the servers are away":           {down: broker.ErrUnreachable, took: 2 * time.Second},
		"too large":                      {down: broker.ErrTooLarge},
		"the servers are away, in order": {down: broker.ErrUnreachable, ordered: true, took: gate.DefaultDeadline},
		"too large, in order":            {down: broker.ErrTooLarge, ordered: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, began := &fakeGate{}, time.Now()
				receipt, err := newBuffer(t, g, &fakeStream{down: c.down}, options{always: true, ordered: c.ordered}).Accept(t.Context(), admission())
				if recorded := err == nil && len(receipt.Items) == 2; recorded == c.ordered || g.asked() == 1 == c.ordered {
					t.Errorf("%+v, %v, the gate was asked %d times", receipt, err, g.asked())
				}
				if c.ordered && (!errors.Is(err, gate.ErrUnavailable) || !errors.Is(err, c.down)) {
					t.Error(err)
				}
				if took := time.Since(began); took > c.took {
					t.Errorf("answered after %s", took)
				}
			})
		})
	}
}

// TestNothingIsSettledUnrecorded checks that a message stays in the stream unless the gate has recorded it.
func TestNothingIsSettledUnrecorded(t *testing.T) {
	t.Parallel()
	publish := func(o options) *consume.Message {
		s := &fakeStream{}
		o.always = true
		_, _ = newBuffer(t, &fakeGate{}, s, o).Accept(t.Context(), admission())
		return received(s.got[0])
	}
	plain, sealed := publish(options{}), publish(options{keyring: ring(t, 1)})
	moved := publish(options{keyring: ring(t, 1)})
	moved.Header.Set("Ce-Id", "another")
	cut := publish(options{})
	cut.Body = cut.Body[:len(cut.Body)-3] // the last event is longer than the body
	foreign := &consume.Message{Header: http.Header{"Content-Type": {"text/plain"}}, Body: plain.Body}
	for name, c := range map[string]struct {
		message *consume.Message
		o       options
		err     error
	}{
		"the gate fails":               {message: plain, err: gate.ErrUnavailable},
		"the gate has no room":         {message: plain, err: gate.ErrOverloaded},
		"the delivery's own fault":     {message: plain, err: fmt.Errorf("%w: %w", gate.ErrUnavailable, gate.ErrDelivery)},
		"a source of another process":  {message: plain, o: options{unknown: true}},
		"sealed with a lost key":       {message: sealed, o: options{keyring: ring(t, 2)}},
		"sealed, and there is no ring": {message: sealed},
		"moved under another id":       {message: moved, o: options{keyring: ring(t, 1)}},
		"plain, and there is a ring":   {message: plain, o: options{keyring: ring(t, 1)}},
		"foreign":                      {message: foreign},
		"cut off":                      {message: cut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newBuffer(t, &fakeGate{err: c.err}, &fakeStream{}, c.o).Admit(t.Context(), c.message)
			if v.Settled || v.Refused || v.Err == nil || strings.Contains(v.Err.Error(), "north") {
				t.Errorf("%+v", v)
			}
		})
	}
}

// TestIDs checks that a delivery that comes again has the same id, and one with other content another one: the stream would
// otherwise forget a conflict.
func TestIDs(t *testing.T) {
	t.Parallel()
	s := &fakeStream{}
	b, c := newBuffer(t, &fakeGate{}, s, options{always: true}), newBuffer(t, &fakeGate{}, s, options{always: true, secret: []byte("secret")})
	other, later := admission(), admission()
	other.Body = []byte("{\"a\":3}\n{\"b\":2}")
	later.ReceivedAt = later.ReceivedAt.Add(time.Hour)
	for _, a := range []*inbox.Admission{admission(), later, other} {
		_, _ = b.Accept(t.Context(), a)
		_, _ = c.Accept(t.Context(), a)
	}
	id := func(i int) string { return s.got[i].ID }
	if id(0) != id(2) || id(0) == id(4) || id(1) != id(3) || id(1) == id(0) || id(1) == id(5) {
		t.Errorf("%s %s %s %s %s %s", id(0), id(1), id(2), id(3), id(4), id(5))
	}
}

func ring(t *testing.T, key int) *seal.Keyring {
	t.Helper()
	keys, err := seal.New(func() ([]byte, error) {
		return fmt.Appendf(nil, "%d %s active", key, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(key)}, 32))), nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestMovedSource checks that a delivery that was buffered before its source moved goes to the buffer of the other database, under the same
// id, and that it is settled only then.
func TestMovedSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before, left, arrived := &fakeStream{}, &fakeGate{}, &fakeStream{down: errors.New("no answer")}
		_, _ = newBuffer(t, left, before, options{always: true}).Accept(t.Context(), admission())
		other, err := buffer.New(buffer.Config{Gate: &fakeGate{}, Stream: arrived, Name: "oncegate-eu", Now: time.Now, Find: func(string) *inbox.Source { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		b, err := buffer.New(buffer.Config{
			Gate: left, Stream: before, Name: "oncegate", Now: time.Now, Find: func(string) *inbox.Source { return shop },
			Elsewhere: func(name string) *buffer.Buffer { return map[string]*buffer.Buffer{"shop": other}[name] },
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := b.Admit(t.Context(), received(before.got[0])); v.Settled || v.Err == nil {
			t.Errorf("while the other stream does not answer: %+v", v)
		}
		arrived.down = nil
		if v := b.Admit(t.Context(), received(before.got[0])); !v.Settled || v.Err != nil {
			t.Errorf("%+v", v)
		}
		if len(arrived.got) != 1 || arrived.got[0].Place != "oncegate-eu.unordered.shop" || arrived.got[0].ID != before.got[0].ID || left.asked() > 0 {
			t.Errorf("the other stream has %+v, and the gate of the first database was asked %d times", arrived.got, left.asked())
		}
	})
}
