package registry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/relay"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// src is a source of the configuration with one route, "all".
func src(name string, previous ...string) registry.Source {
	return registry.Source{
		Name: name, Provider: "test", Class: "default", PreviousNames: previous,
		Routes: []registry.Route{{Name: "all", Target: "sink", Kind: "forward", Digest: []byte{1}}},
	}
}

func separate(name string) registry.Source {
	s := src(name)
	s.Separate = true
	return s
}

func register(t *testing.T, pool *pgxpool.Pool, sources ...registry.Source) map[string]registry.Registered {
	t.Helper()
	out, err := registry.Register(t.Context(), pool, sources)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refused registers what must not be taken, and checks that the refusal names what to do
// and that nothing has changed.
func refused(t *testing.T, pool *pgxpool.Pool, want string, sources ...registry.Source) {
	t.Helper()
	const state = `
SELECT coalesce(string_agg(s.id || s.name || s.provider || coalesce(s.key_name, ''), ',' ORDER BY s.id), '') || ';' ||
    (SELECT coalesce(string_agg(r.id || r.name || r.version, ',' ORDER BY r.id), '') FROM route r) || ';' || (SELECT count(*) FROM past_name)
FROM source s`
	var before, after string
	if err := pool.QueryRow(t.Context(), state).Scan(&before); err != nil {
		t.Fatal(err)
	}
	_, err := registry.Register(t.Context(), pool, sources)
	if !errors.Is(err, registry.ErrNames) || !strings.Contains(err.Error(), want) || strings.Contains(want, "\n") {
		t.Errorf("registering gave %v, want ErrNames with %q", err, want)
	}
	if err := pool.QueryRow(t.Context(), state).Scan(&after); err != nil {
		t.Fatal(err)
	}
	if before != after {
		t.Errorf("a refused configuration changed %s into %s", before, after)
	}
}

// served is the source as the gate of a process with the configuration has it.
func served(name string, row registry.Registered) *inbox.Source {
	s := &inbox.Source{ID: row.ID, Name: name, KeyName: row.KeyName, Class: "default"}
	for name, route := range row.Routes {
		s.Routes = append(s.Routes, inbox.Route{
			ID: route.ID, Version: route.Version, Name: name, KeyName: route.KeyName, Types: []string{"*"}, Target: "sink", Kind: "forward",
		})
	}
	return s
}

// newRenamed is a gate that runs, on a schema with one source that is not told of.
func newRenamed(t *testing.T) *storetest.Bench {
	t.Helper()
	b := storetest.NewBench(t, nil)
	b.Start(t)
	t.Cleanup(func() { _ = b.Gate.Stop(context.WithoutCancel(t.Context())) })
	return b
}

func accept(t *testing.T, b *storetest.Bench, source *inbox.Source, eventID string) inbox.Outcome {
	t.Helper()
	receipt, err := b.Gate.Accept(t.Context(), inboxtest.Admission(source, eventID))
	if err != nil {
		t.Fatal(err)
	}
	return receipt.Items[0].Outcome
}

func column[T any](t *testing.T, pool *pgxpool.Pool, sql string) []T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func keysOf(t *testing.T, pool *pgxpool.Pool, eventID string) []string {
	t.Helper()
	return column[string](t, pool, `SELECT x.idempotency_key FROM effect x JOIN inbox_event e ON e.id = x.event_id
		WHERE e.event_id = '`+eventID+`' ORDER BY 1`)
}

func TestARenamedSourceKeepsItsKeys(t *testing.T) {
	t.Parallel()
	b := newRenamed(t)
	ctx := t.Context()
	accept(t, b, served("old", register(t, b.Pool, src("old"))["old"]), "evt_1")

	// What the key of evt_2 would have been without a renaming: of a schema of its own.
	twin := newRenamed(t)
	accept(t, twin, served("old", register(t, twin.Pool, src("old"))["old"]), "evt_2")

	renamed := src("new", "old")
	renamed.Routes[0].Name, renamed.Routes[0].PreviousNames = "every", []string{"all"}
	row := register(t, b.Pool, renamed)["new"]
	if row.Renamed != "old" || row.Routes["every"].Renamed != "all" {
		t.Errorf("registered as %+v, want it renamed from old, and its route from all", row)
	}
	source := served("new", row)
	if got := accept(t, b, source, "evt_1"); got != inbox.Duplicate {
		t.Errorf("an event of the old name is %s under the new one, want %s", got, inbox.Duplicate)
	}
	accept(t, b, source, "evt_2")
	if got, want := keysOf(t, b.Pool, "evt_2"), keysOf(t, twin.Pool, "evt_2"); !slices.Equal(got, want) || len(got) != 1 {
		t.Errorf("the idempotency key under the new names is %v, under the old ones it was %v", got, want)
	}
	var hash []byte
	source.Routes[0].Order, source.Routes[0].Sequence = sequence.Policy{Mode: sequence.Arrival}, func(*inbox.Admission, int) (string, string, bool) { return "k", "", false }
	accept(t, b, source, "evt_3")
	if err := b.Pool.QueryRow(ctx, `SELECT x.sequence_key_hash FROM effect x JOIN inbox_event e ON e.id = x.event_id WHERE e.event_id = 'evt_3'`).Scan(&hash); err != nil {
		t.Fatal(err)
	}
	if want := inbox.SequenceKeyHash("old", "all", "k"); !slices.Equal(hash, want) {
		t.Error("a renamed source begins new streams")
	}
}

// In a rolling deploy a process with the old configuration may start again at any time.
func TestAnOldNameIsNeverBornAgain(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	first := register(t, pool, src("a"))["a"]
	route := func(s registry.Source, name string, previous ...string) registry.Source {
		s.Routes = []registry.Route{{Name: name, Target: "sink", Kind: "forward", Digest: []byte{1}, PreviousNames: previous}}
		return s
	}
	for _, step := range []struct {
		what    string
		sources []registry.Source
		is      string // the name in the database
		route   string
	}{
		{"renamed", []registry.Source{src("b", "a")}, "b", "all"},
		{"the old configuration starts again", []registry.Source{src("a")}, "b", "all"},
		{"and the new one", []registry.Source{src("b", "a")}, "b", "all"},
		{"and the new one, cleaned up", []registry.Source{src("b")}, "b", "all"},
		{"an old one that said that it was new", []registry.Source{separate("a")}, "b", "all"},
		{"renamed again, by the whole chain", []registry.Source{src("c", "a", "b")}, "c", "all"},
		{"the configuration in between starts again", []registry.Source{src("b", "a")}, "c", "all"},
		{"and the first one", []registry.Source{src("a")}, "c", "all"},
		{"renamed back", []registry.Source{src("a", "c")}, "a", "all"},
		{"a configuration that said the opposite starts again", []registry.Source{src("c", "a", "b")}, "a", "all"},
		{"a skipped link of a chain", []registry.Source{src("d", "b")}, "d", "all"},
		{"its route renamed", []registry.Source{route(src("d"), "every", "all")}, "d", "every"},
		{"the old route starts again", []registry.Source{src("d")}, "d", "every"},
		{"under the first name of all", []registry.Source{src("a")}, "d", "every"},
	} {
		for name, row := range register(t, pool, step.sources...) {
			if row.ID != first.ID || row.Name != step.is || row.KeyName != "a" {
				t.Errorf("%s: %s is %+v, want row %d named %s with keys of a", step.what, name, row, first.ID, step.is)
			}
			for name, r := range row.Routes {
				if r.ID != first.Routes["all"].ID || r.Name != step.route || r.KeyName != "all" {
					t.Errorf("%s: route %s is %+v, want row %d named %s with keys of all", step.what, name, r, first.Routes["all"].ID, step.route)
				}
			}
		}
	}
	if n := column[int](t, pool, `SELECT count(*) FROM source`)[0]; n != 1 {
		t.Errorf("there are %d sources, want 1", n)
	}
	if n := column[int](t, pool, `SELECT count(*) FROM route`)[0]; n != 1 {
		t.Errorf("there are %d routes, want 1", n)
	}
}

func TestProcessesThatStartAtOnceAgreeOnNames(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	var mu sync.Mutex
	var all sync.WaitGroup
	ids := map[int32]int{}
	for i := range 24 {
		all.Go(func() {
			configuration := [][]registry.Source{{src("a")}, {src("b", "a")}, {src("c", "a", "b")}}[i%3]
			out, err := registry.Register(context.WithoutCancel(t.Context()), pool, configuration)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("start %d: %v", i, err)
			}
			for _, row := range out {
				ids[row.ID]++
			}
		})
	}
	all.Wait()
	if len(ids) != 1 {
		t.Errorf("processes that started at once have the rows %v, want one", ids)
	}
}

func TestNamesThatChangeHands(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	first := register(t, pool, src("a"), src("b"))
	a, b := first["a"].ID, first["b"].ID
	is := func(what string, got map[string]registry.Registered, want map[string]int32) {
		t.Helper()
		for name, id := range want {
			if got[name].ID != id {
				t.Errorf("%s: %s has row %d, want %d", what, name, got[name].ID, id)
			}
		}
	}
	swapped := []registry.Source{src("a", "b"), src("b", "a")}
	is("swapped", register(t, pool, swapped...), map[string]int32{"a": b, "b": a})
	is("started again", register(t, pool, swapped...), map[string]int32{"a": b, "b": a})

	// Each takes the name of the next, and the first name is free for a new source.
	line := register(t, pool, src("x"), src("y"))
	shifted := []registry.Source{separate("x"), src("y", "x"), src("z", "y")}
	out := register(t, pool, shifted...)
	is("shifted", out, map[string]int32{"y": line["x"].ID, "z": line["y"].ID})
	is("started again", register(t, pool, shifted...), map[string]int32{"x": out["x"].ID, "y": line["x"].ID, "z": line["y"].ID})
	names := map[string]bool{}
	for _, name := range column[string](t, pool, `SELECT coalesce(key_name, name) FROM source`) {
		if names[name] {
			t.Errorf("two sources make their keys with %s", name)
		}
		names[name] = true
	}
}

// A process that still runs means by a name what it meant when it started.
func TestANameChangesHandsOnlyWhileNoOtherConfigurationLives(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	register(t, pool, src("a"))
	node, err := node.New(node.Config{Pool: pool, Name: "other-1", Version: "1", Configuration: "before"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := []registry.Source{separate("a"), src("b", "a")}
	refused(t, pool, "other-1", again...)
	if err := node.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	register(t, pool, again...)
}

func TestNamesThatCannotBe(t *testing.T) {
	t.Parallel()
	b := newRenamed(t)
	rows := register(t, b.Pool, src("a"), src("b"), src("c"))
	accept(t, b, served("a", rows["a"]), "evt_1")
	refused(t, b.Pool, "source b cannot take over what a has, since there is a source b already", src("b", "a"))
	refused(t, b.Pool, "source d cannot have been both a and b", src("d", "a", "b"))
	register(t, b.Pool, src("d", "c"))
	refused(t, b.Pool, "source e cannot have been c, which became d on", src("a"), src("b"), src("d"), src("e", "c"))
	refused(t, b.Pool, "source c became d on", src("a"), src("b"), src("c"), src("d"))
	register(t, b.Pool, src("a"), src("b"), separate("c"), src("d"))
	refused(t, b.Pool, "source a: the configuration does not fit the names in the database: route x cannot take over what all has",
		src("b"), func() registry.Source {
			s := src("a")
			s.Routes = append(s.Routes, registry.Route{Name: "x", Target: "sink", Kind: "forward", Digest: []byte{1}})
			register(t, b.Pool, s)
			s.Routes = []registry.Route{{Name: "x", Target: "sink", Kind: "forward", Digest: []byte{1}, PreviousNames: []string{"all"}}}
			return s
		}())
	// A name that there never was does no harm: installations share configurations.
	if got := register(t, b.Pool, src("a", "never"))["a"]; got.ID != rows["a"].ID || got.Renamed != "" {
		t.Errorf("a previous name that never was gave %+v", got)
	}
}

// A renamed source never makes old events new again unless it is said so.
func TestANewSourceBesideOneThatIsGoneSaysWhatItIs(t *testing.T) {
	t.Parallel()
	b := newRenamed(t)
	old := register(t, b.Pool, src("old"))["old"]
	register(t, b.Pool, src("other")) // nothing was received yet
	accept(t, b, served("old", old), "evt_1")

	refused(t, b.Pool, "previous_names: [old] at new if it is that source", src("new"))
	refused(t, b.Pool, "previous_names: [] if it is not", src("new", "a-slip-of-the-pen"))
	register(t, b.Pool, src("old"), src("third")) // it is configured
	foreign := src("foreign")
	foreign.Provider = "another"
	register(t, b.Pool, foreign)
	if got := register(t, b.Pool, separate("fourth"))["fourth"]; got.ID == old.ID {
		t.Error("a source that is none of the others has the row of one")
	}
	if got := register(t, b.Pool, src("new", "old"))["new"]; got.ID != old.ID {
		t.Errorf("the renamed source has row %d, want %d", got.ID, old.ID)
	}
}

func TestAnotherProviderForTheKeysOfASource(t *testing.T) {
	t.Parallel()
	b := newRenamed(t)
	with := func(provider string, previous ...string) registry.Source {
		s := src("a", previous...)
		s.Provider = provider
		return s
	}
	row := register(t, b.Pool, with("first"))["a"]
	register(t, b.Pool, with("none-yet")) // there is no key that it could matter for
	register(t, b.Pool, with("first"))
	accept(t, b, served("a", row), "evt_1")
	refused(t, b.Pool, "source a is of provider second, and a was of provider first and holds 1 key", with("second"))
	if got := register(t, b.Pool, with("second", "a"))["a"]; got.ID != row.ID {
		t.Errorf("a source that says that it is the same has row %d, want %d", got.ID, row.ID)
	}
	register(t, b.Pool, with("first")) // a process with the configuration before starts again
	register(t, b.Pool, with("second"))
	refused(t, b.Pool, "of provider third", with("third"))
}

func TestEmitTakesTheNamesOfThePast(t *testing.T) {
	t.Parallel()
	o := storetest.NewOutbox(t)
	emit := func(name, id string) {
		t.Helper()
		storetest.Exec(t, o.Pool, fmt.Sprintf(`SELECT emit('%s', '%s', 'order.placed', '{}')`, name, id))
	}
	emit("orders", "before")
	row := register(t, o.Pool, func() registry.Source {
		s := src("purchases", "orders")
		s.Emit = true
		return s
	}())["purchases"]
	emit("orders", "by-the-old-name")
	emit("purchases", "by-the-new-name")
	before := o.Relay(t, o.Gate, 10) // a process with the old configuration
	if got := storetest.RunRelay(t, before); got != 3 {
		t.Errorf("a process with the old configuration relayed %d events, want 3", got)
	}
	emit("orders", "after")
	emit("purchases", "before")
	o.Source = served("purchases", row)
	relay, err := relay.New(relay.Config{
		Pool: o.Work, Gate: o.Gate, Clock: o.Clock, Logger: slog.New(slog.DiscardHandler), Sources: map[string]*inbox.Source{row.KeyName: o.Source},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := storetest.RunRelay(t, relay); got != 2 {
		t.Errorf("a process with the new configuration relayed %d events, want 2", got)
	}
	o.Want(t, 4, 0)
}
