package node_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/seal"
)

const nodeKeys = "1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= active\n2 ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="

// A heartbeat that comes after a process has left does not bring its row back: nobody would remove it, and a
// person who changes keys or sources would wait for a process that is gone. A heartbeat that has begun ends before the row is
// removed, even if the process cancels it.
func TestAProcessThatLeftStaysAway(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	n, err := node.New(node.Config{Pool: pool, Name: "a", Version: "1.2.3", Roles: []string{"work"}, Configuration: "c0ffee"})
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if nodes, err := n.Beat(canceled); err != nil || len(nodes) != 1 {
		t.Errorf("a heartbeat that is canceled found %d processes, %v; it must end", len(nodes), err)
	}
	if err := n.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, late := range map[string]func() error{
		"a heartbeat":           func() error { _, err := n.Beat(t.Context()); return err },
		"withdrawn routes":      func() error { return n.Work(t.Context(), nil) },
		"a served revision":     func() error { return n.Serve(t.Context(), 1) },
		"a failed reload":       func() error { return n.KeepsConfiguration(t.Context(), "why") },
		"leaving another time":  func() error { return n.Leave(t.Context()) },
		"a heartbeat, canceled": func() error { _, err := n.Beat(canceled); return err },
	} {
		if err := late(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if nodes, err := node.List(t.Context(), pool); err != nil || len(nodes) != 0 {
			t.Errorf("%s brought %d processes back, %v", name, len(nodes), err)
		}
	}
}

// Whoever changes keys must see every process that lives, with the keys it holds, and
// none that has stopped; one that was killed counts only for a while.
func TestNodes(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	text := nodeKeys
	keys, err := seal.New(func() ([]byte, error) { return []byte(text), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	self := func(name string, keys *seal.Keyring) *node.Node {
		n, err := node.New(node.Config{Pool: pool, Name: name, Version: "1.2.3", Roles: []string{"work"}, Configuration: "c0ffee", Keyring: keys})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	list := func() []node.Row {
		nodes, err := node.List(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		return nodes
	}
	a, plain := self("a", keys), self("plain", nil)
	first, second := keys.Ring().Keys()[0], keys.Ring().Keys()[1]

	nodes := list()
	if len(nodes) != 2 || nodes[0].ActiveKey != 1 || !nodes[0].Live || nodes[0].Version != "1.2.3" || len(nodes[0].Keys) != 2 || !nodes[0].Holds(second) {
		t.Fatalf("the nodes are %+v", nodes)
	}
	if got := node.Lacking(nodes, second); len(got) != 1 || got[0].Name != "plain" {
		t.Errorf("key 2 is lacked by %v, want plain alone", got)
	}
	if got := node.Lacking(nodes, seal.NewKey(2)); len(got) != 2 {
		t.Errorf("another key 2 is lacked by %v, want both: the id alone is not the key", got)
	}
	if got := node.Sealing(nodes, 1); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("key 1 is sealed with by %v, want a", got)
	}

	// What a process sealed with a moment ago may still be on its way.
	text = nodeKeys[:len(nodeKeys)-len("2 ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=")]
	text = text[:len(text)-len(" active\n")] + "\n2 ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8= active"
	if err := keys.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := node.Sealing(list(), 1); len(got) != 1 {
		t.Errorf("right after the change, key 1 is sealed with by %v, want a", got)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE node SET active_since = now() - interval '61 seconds' WHERE name = 'a'`); err != nil {
		t.Fatal(err)
	}
	if got := node.Sealing(list(), 1); len(got) != 0 {
		t.Errorf("a minute after the change, key 1 is sealed with by %v", got)
	}

	// A killed process.
	silent := func(d time.Duration) {
		if _, err := pool.Exec(t.Context(), `UPDATE node SET heartbeat = now() - $1::bigint * interval '1 microsecond' WHERE name = 'a'`, d.Microseconds()); err != nil {
			t.Fatal(err)
		}
	}
	silent(node.Silence + time.Second)
	if nodes := list(); nodes[0].Live || len(node.Lacking(nodes, first)) != 1 || len(node.Sealing(nodes, 2)) != 1 {
		t.Errorf("a silent process: %+v, want it not live, lacking nothing, and sealing for a while", nodes[0])
	}
	silent(11 * time.Minute)
	if got := node.Sealing(list(), 2); len(got) != 0 {
		t.Errorf("after 11 minutes of silence key 2 is sealed with by %v", got)
	}
	silent(25 * time.Hour)
	if nodes, err := plain.Beat(t.Context()); err != nil || slices.ContainsFunc(nodes, func(n node.Row) bool { return n.Name == "a" }) {
		t.Errorf("after a day of silence: %+v, %v, want it forgotten", nodes, err)
	}
	if nodes, err := a.Beat(t.Context()); err != nil || len(nodes) != 2 {
		t.Errorf("it comes back: %+v, %v", nodes, err)
	}
	if err := plain.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if nodes := list(); len(nodes) != 1 || nodes[0].Name != "a" {
		t.Errorf("after a stop: %+v", nodes)
	}
}

// An effect goes to a process that works its route: what the table says of that must be
// true of live processes, and say nothing of this one.
func TestPeers(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	self := func(name string) *node.Node {
		n, err := node.New(node.Config{Pool: pool, Name: name, Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a, b := self("a"), self("b")
	work := func(n *node.Node, routes ...int32) {
		if err := n.Work(t.Context(), routes); err != nil {
			t.Fatal(err)
		}
	}
	works := func(want bool) {
		t.Helper()
		if err := a.Peers().Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := a.Peers().Works(7); got != want {
			t.Errorf("another process works route 7: %t, want %t", got, want)
		}
	}
	work(a, 7, 8)
	works(false)
	work(b, 7)
	if a.Peers().Works(7) {
		t.Error("known without having been read")
	}
	works(true)
	work(b)
	works(false)
	work(b, 7)
	if _, err := a.Beat(t.Context()); err != nil || !a.Peers().Works(7) || !slices.Equal(a.Peers().Routes(), []int32{7}) {
		t.Errorf("after a heartbeat: %v, %v", a.Peers().Routes(), err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE node SET heartbeat = now() - interval '31 s' WHERE name = 'b'`); err != nil {
		t.Fatal(err)
	}
	works(false)
	work(b, 7)
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	works(false)
	// A process of an earlier version says nothing.
	if _, err := pool.Exec(t.Context(), `INSERT INTO node (id, name, version, roles, configuration, key_ids, key_fingerprints, started_at, heartbeat)
		VALUES (gen_random_uuid(), 'earlier', '0', '{work}', '', '{}', '{}', now(), now())`); err != nil {
		t.Fatal(err)
	}
	works(false)
	var none *node.Peers
	if none.Works(7) || none.Routes() != nil || none.Look(t.Context()) != nil {
		t.Error("no peers know something")
	}
}
