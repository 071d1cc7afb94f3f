package inbox_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/session"
)

func TestID(t *testing.T) {
	t.Parallel()
	// RFC 9562, appendix A.6: the example of a version 7 uuid and its time.
	example, err := inbox.ParseID("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC); !example.Time().Equal(want) {
		t.Errorf("the time of RFC 9562's example is %s, want %s", example.Time(), want)
	}
	id := inbox.NewID(example.Time())
	if id[6]>>4 != 7 || id[8]>>6 != 2 {
		t.Errorf("%s has version %d and variant %d, want 7 and 2", id, id[6]>>4, id[8]>>6)
	}
	if again, err := inbox.ParseID(id.String()); err != nil || again != id {
		t.Errorf("%s is read back as %s, %v", id, again, err)
	}
	if inbox.FirstID(id.Time()).String() > id.String() {
		t.Errorf("%s lies before the first id of its millisecond", id)
	}
	for _, bad := range []string{"", "x", "017f22e279b07cc398c4dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c07398g", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0"} {
		if _, err := inbox.ParseID(bad); !errors.Is(err, inbox.ErrID) {
			t.Errorf("ParseID(%q) gave %v, want ErrID", bad, err)
		}
	}
}

func TestIDsSortByTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var ids []string
	for i := range 50 {
		ids = append(ids, inbox.NewID(at.Add(time.Duration(i)*100*time.Microsecond)).String())
	}
	if !slices.IsSorted(ids) {
		t.Errorf("ids made one after the other are not sorted: %v", ids)
	}
}

func TestRegisterNeverRenumbers(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	register := func(class string, digest byte) registry.Registered {
		t.Helper()
		out, err := registry.Register(t.Context(), pool, []registry.Source{{
			Name: "stripe", Provider: "stripe", Class: class,
			Routes: []registry.Route{{Name: "a", Target: fmt.Sprint("t", digest), Kind: "forward", Digest: []byte{digest}, Definition: []byte(`{"a":1}`)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return out["stripe"]
	}
	first, same, changed := register("default", 1), register("payments", 1), register("payments", 2)
	if first.ID != same.ID || first.ID != changed.ID || first.Routes["a"].ID != changed.Routes["a"].ID {
		t.Errorf("ids changed: %+v, %+v, %+v", first, same, changed)
	}
	if first.Routes["a"].Version != 1 || same.Routes["a"].Version != 1 || changed.Routes["a"].Version != 2 {
		t.Errorf("versions are %+v, %+v, %+v, want 1, 1, 2", first, same, changed)
	}
	registry, err := registry.Read(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if got := registry.Sources["stripe"]; got.ID != first.ID || got.Routes["a"] != changed.Routes["a"] {
		t.Errorf("read back as %+v, want %+v", got, changed)
	}
	for version, target := range map[int]string{1: "t1", 2: "t2", 3: ""} {
		if got, ok := registry.Version(first.Routes["a"].ID, version); ok != (target != "") || got.Target != target || ok && string(got.Definition) != `{"a": 1}` {
			t.Errorf("version %d was %s to %q, want %q", version, got.Definition, got.Target, target)
		}
	}
}

func TestEnsurePartitions(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	at := time.Date(2026, 3, 1, 23, 59, 0, 0, time.UTC)
	done := make(chan error)
	for range 4 { // at once, as processes that start together
		go func() { done <- inbox.EnsurePartitions(t.Context(), pool, []string{"default", "payments"}, at, 2) }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(relid::regclass::text ORDER BY 1) FROM pg_partition_tree('inbox_body') WHERE isleaf`).Scan(&names); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	want := []string{
		"inbox_body_default_20260228", "inbox_body_default_20260301", "inbox_body_default_20260302", "inbox_body_default_20260303",
		"inbox_body_kept",
		"inbox_body_payments_20260228", "inbox_body_payments_20260301", "inbox_body_payments_20260302", "inbox_body_payments_20260303",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the partitions are %v, want %v", names, want)
	}
	for _, bad := range []string{"", "kept", "A", "a-b", "a;drop"} {
		if err := inbox.EnsurePartitions(t.Context(), pool, []string{bad}, at, 1); !errors.Is(err, inbox.ErrClassName) {
			t.Errorf("class %q gave %v, want ErrClassName", bad, err)
		}
	}
}

func TestClockFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	const ahead = 10 * time.Minute
	clock := inbox.NewClock(pool, func() time.Time { return time.Now().Add(ahead) })
	if err := clock.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clock.Stop)
	if skew := (clock.Skew() + ahead).Abs(); skew > 5*time.Second {
		t.Errorf("the skew is %s, want %s", clock.Skew(), -ahead)
	}
	if off := time.Until(clock.Now()).Abs(); off > 5*time.Second {
		t.Errorf("the corrected time is %s off", off)
	}
	if clock.Check() == nil {
		t.Error("a clock ten minutes ahead was called ready")
	}
}

func TestVolatileNamesWhatIsOff(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	var want []string
	for _, name := range []string{"fsync", "full_page_writes"} {
		var value string
		if err := pool.QueryRow(t.Context(), "SHOW "+name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		if value == "off" {
			want = append(want, name)
		}
	}
	got, err := inbox.Volatile(t.Context(), pool)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// TestPoolsAskForDurability: whatever the url says.
func TestPoolsAskForDurability(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	if !strings.Contains(url, "?") {
		url += "?"
	}
	for _, role := range []session.PoolRole{session.PoolGate, session.PoolWork, session.PoolAdmin} {
		var value string
		pool := inboxtest.Open(t, url+"&synchronous_commit=off", schema, role, 1)
		if err := pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&value); err != nil {
			t.Fatal(err)
		}
		if value != "on" {
			t.Errorf("the %s pool commits with synchronous_commit=%s, want on", role, value)
		}
	}
}

func TestRouteMatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, kind string
		want          bool
	}{
		{"*", "", true}, {"*", "orders/create", true}, {"charge.*", "charge.succeeded", true}, {"charge.*", "charge", false},
		{"orders/*", "orders/create", true}, {"*/create", "orders/create", true}, {"invoice.paid", "invoice.paid", true},
		{"invoice.paid", "invoice.paid2", false},
	} {
		route := inbox.Route{Types: []string{test.pattern}}
		if got := route.Matches(test.kind); got != test.want {
			t.Errorf("%q matches %q: %t, want %t", test.pattern, test.kind, got, test.want)
		}
	}
}
