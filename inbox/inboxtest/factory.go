package inboxtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/registry"
)

// Source registers a source of the name with one route, "all", that takes every
// event to a target "sink", and makes its partitions.
func Source(tb testing.TB, pool *pgxpool.Pool, name string) *inbox.Source {
	tb.Helper()
	ctx := tb.Context()
	if err := inbox.EnsurePartitions(ctx, pool, []string{"default"}, time.Now(), 1); err != nil {
		tb.Fatal(err)
	}
	registered, err := registry.Register(ctx, pool, []registry.Source{{
		Name: name, Provider: "test", Class: "default", Separate: true,
		Routes: []registry.Route{{Name: "all", Target: "sink", Kind: "forward", Digest: []byte{1}}},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	row := registered[name]
	route := row.Routes["all"]
	return &inbox.Source{
		ID: row.ID, Name: name, Class: "default", Canonical: canonical, Differences: differences,
		Routes: []inbox.Route{{ID: route.ID, Version: route.Version, Name: "all", Types: []string{"*"}, Target: "sink", Kind: "forward"}},
	}
}

// Clock is a clock on the pool's database.
func Clock(tb testing.TB, pool *pgxpool.Pool) *inbox.Clock {
	tb.Helper()
	clock := inbox.NewClock(pool, time.Now)
	if err := clock.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(clock.Stop)
	return clock
}

// Admission is a delivery of one event with the id; the body says so.
func Admission(source *inbox.Source, eventID string) *inbox.Admission {
	return AdmissionOf(source, eventID, fmt.Sprintf(`{"id":%q,"attempt":1}`, eventID))
}

// AdmissionOf is a delivery of one event with the id and the body.
func AdmissionOf(source *inbox.Source, eventID, body string) *inbox.Admission {
	return &inbox.Admission{
		Source: source, Body: []byte(body), Headers: []byte(`{"Content-Type":"application/json"}`), ReceivedAt: time.Now(),
		Events: []inbox.NewEvent{{EventID: eventID, Type: "test.happened", Length: len(body)}},
	}
}

// Batch is a delivery of several events.
func Batch(source *inbox.Source, eventIDs ...string) *inbox.Admission {
	a := &inbox.Admission{Source: source, Headers: []byte(`{}`), ReceivedAt: time.Now()}
	var body bytes.Buffer
	body.WriteByte('[')
	for i, id := range eventIDs {
		if i > 0 {
			body.WriteByte(',')
		}
		at := body.Len()
		fmt.Fprintf(&body, `{"id":%q}`, id)
		a.Events = append(a.Events, inbox.NewEvent{EventID: id, Type: "test.happened", Offset: at, Length: body.Len() - at})
	}
	body.WriteByte(']')
	a.Body = body.Bytes()
	return a
}

// canonical is the test provider's: JSON without the field "attempt", which it
// changes between deliveries.
func canonical(body []byte) ([]byte, bool) {
	var doc map[string]any
	if json.Unmarshal(body, &doc) != nil {
		return nil, false
	}
	delete(doc, "attempt")
	out, err := json.Marshal(doc)
	return out, err == nil
}

func differences(a, b []byte) []string {
	var first, other map[string]any
	if json.Unmarshal(a, &first) != nil || json.Unmarshal(b, &other) != nil {
		return nil
	}
	var paths []string
	for name, value := range other {
		if fmt.Sprint(first[name]) != fmt.Sprint(value) && name != "attempt" {
			paths = append(paths, "$."+name)
		}
	}
	return paths
}
