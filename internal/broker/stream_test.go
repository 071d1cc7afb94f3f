package broker_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/broker/faulttest"
)

func newStream(t *testing.T, url, name string, replicas int) *broker.Stream {
	t.Helper()
	address, _, _, err := broker.ParseAddress(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := broker.NewStream(broker.StreamConfig{Config: broker.Config{Address: address}, Name: name, Replicas: replicas})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// TestStreamIsMade checks that processes which publish at the same instant make one stream, that the stream has no faults, and
// that its messages come to consumers by their subjects and once.
func TestStreamIsMade(t *testing.T) {
	t.Parallel()
	server := faulttest.NewNATS(t, faulttest.Options{Empty: true})
	first, second := newStream(t, server.URL, "kept", 1), newStream(t, server.URL, "kept", 1)
	var all sync.WaitGroup
	for i, s := range []*broker.Stream{first, second, first, second} {
		all.Go(func() {
			id := []string{"a", "b", "a", "b"}[i]
			if _, err := s.Publish(t.Context(), &broker.Message{ID: id, Place: "kept." + id + ".x", Body: []byte(id)}); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	all.Wait()
	if faults, err := first.Check(t.Context()); err != nil || len(faults) > 0 {
		t.Errorf("%v, %v", faults, err)
	}
	address, _, _, _ := broker.ParseAddress(server.URL)
	c, err := broker.NewConsumer(broker.ConsumerConfig{Config: broker.Config{Address: address}, Place: "kept", Group: "g", Filter: "kept.b.>", ReturnAfter: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	got, err := c.Take(t.Context(), 10)
	if err != nil || len(got) != 1 || string(got[0].Body) != "b" {
		t.Fatalf("%+v, %v", got, err)
	}
	began := time.Now()
	if err := c.Return(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if got, err = c.Take(t.Context(), 10); err != nil || len(got) != 1 || time.Since(began) < time.Second {
		t.Fatalf("%+v, %v after %s", got, err, time.Since(began))
	}
	if err := c.Done(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	stream, err := jetStream(t, server.URL).Stream(t.Context(), "kept")
	if err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Errorf("%+v, %v: an acknowledged message is still there", stream.CachedInfo().State, err)
	}
}

// TestStreamFaults checks that a stream is refused that would lose messages.
func TestStreamFaults(t *testing.T) {
	t.Parallel()
	server := faulttest.NewNATS(t, faulttest.Options{Empty: true})
	js := jetStream(t, server.URL)
	for name, c := range map[string]struct {
		change func(*jetstream.StreamConfig)
		want   string
	}{
		"sound":     {func(*jetstream.StreamConfig) {}, ""},
		"noack":     {func(s *jetstream.StreamConfig) { s.NoAck = true }, "no_ack"},
		"memory":    {func(s *jetstream.StreamConfig) { s.Storage = jetstream.MemoryStorage }, "memory"},
		"age":       {func(s *jetstream.StreamConfig) { s.MaxAge = time.Hour }, "max_age"},
		"full":      {func(s *jetstream.StreamConfig) { s.MaxMsgs = 5; s.Discard = jetstream.DiscardOld }, "discard: new"},
		"bounded":   {func(s *jetstream.StreamConfig) { s.MaxMsgs = 5 }, ""},
		"latest":    {func(s *jetstream.StreamConfig) { s.MaxMsgsPerSubject = 1; s.Discard = jetstream.DiscardOld }, "discard: new"},
		"retention": {func(s *jetstream.StreamConfig) { s.Retention = jetstream.LimitsPolicy }, "workqueue"},
		"subjects":  {func(s *jetstream.StreamConfig) { s.Subjects = []string{"other.>"} }, "subjects"},
	} {
		cfg := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, Replicas: 1}
		c.change(&cfg)
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		faults, err := newStream(t, server.URL, name, 1).Check(t.Context())
		if err != nil || (len(faults) > 0) != (c.want != "") || len(faults) > 1 {
			t.Errorf("%s: %+v, %v", name, faults, err)
			continue
		}
		for _, f := range faults {
			if !strings.Contains(f.Text+f.Remedy, c.want) || f.Warning {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
	if faults, err := newStream(t, server.URL, "sound", 3).Check(t.Context()); err != nil || len(faults) != 1 || !strings.Contains(faults[0].Text, "replica") {
		t.Errorf("too few replicas: %+v, %v", faults, err)
	}
	if faults, err := newStream(t, server.URL, "unmade", 3).Check(t.Context()); err != nil || len(faults) != 1 || !strings.Contains(faults[0].Text, "cluster") {
		t.Errorf("three replicas of one server: %+v, %v", faults, err)
	}
	if _, err := newStream(t, "nats://127.0.0.1:1", "x", 1).Check(t.Context()); !errors.Is(err, broker.ErrUnreachable) {
		t.Errorf("no server: %v", err)
	}
}

// TestNote checks that what one process keeps with the stream is there for the next one.
func TestNote(t *testing.T) {
	t.Parallel()
	server := faulttest.NewNATS(t, faulttest.Options{Empty: true})
	s := newStream(t, server.URL, "kept", 1)
	if note, err := s.Kept(t.Context()); err != nil || note != nil {
		t.Errorf("before: %q, %v", note, err)
	}
	for _, note := range []string{"one", "two"} {
		if err := s.Keep(t.Context(), []byte(note)); err != nil {
			t.Fatal(err)
		}
	}
	if note, err := newStream(t, server.URL, "kept", 1).Kept(t.Context()); err != nil || string(note) != "two" {
		t.Errorf("%q, %v", note, err)
	}
}
