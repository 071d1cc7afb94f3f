package definition_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/definition"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/seal"
)

var byAnn = definition.Decision{Actor: "ann", Reason: "a customer"}

var errTaken = errors.New("taken")

// create defines a source unless it is defined otherwise already.
func create(t *testing.T, pool *pgxpool.Pool, keys *seal.Keyring, name, content string) (definition.Definition, bool, error) {
	t.Helper()
	return definition.Change(t.Context(), pool, keys, name, byAnn, func(now *definition.Definition) (definition.Definition, error) {
		if now != nil && string(now.Content) != content {
			return definition.Definition{}, errTaken
		}
		return definition.Definition{Content: []byte(content), Enabled: true}, nil
	})
}

// Of many callers at once that define the same source, one defines it and all get the same answer. Of those that define it differently, one
// gets it. The audit and the revision have each change once.
func TestTheSameSourceAtOnce(t *testing.T) {
	t.Parallel()
	pool, keys := inboxtest.Pool(t), storetest.RingOf(t, storetest.FirstKey+" active")
	var changes, taken atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			d, changed, err := create(t, pool, keys, "same", `{"provider":"stripe"}`)
			if err != nil || d.Revision == 0 || !d.Enabled || d.By != "ann" {
				t.Errorf("got %+v, %v", d, err)
			}
			if changed {
				changes.Add(1)
			}
		})
		all.Go(func() {
			_, changed, err := create(t, pool, keys, "other", fmt.Sprintf(`{"max_body":%d}`, i))
			switch {
			case errors.Is(err, errTaken):
				taken.Add(1)
			case err != nil || !changed:
				t.Errorf("got %v, %v", changed, err)
			}
		})
	}
	all.Wait()
	if changes.Load() != 1 || taken.Load() != 7 {
		t.Errorf("%d callers defined the same source, and %d were refused another", changes.Load(), taken.Load())
	}
	set, err := definition.Read(t.Context(), pool, keys)
	if err != nil || set.Revision != 2 || len(set.Definitions) != 2 {
		t.Errorf("got %+v, %v", set, err)
	}
	var audited int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = $1`, inbox.AuditSourceCreate).Scan(&audited); err != nil || audited != 2 {
		t.Errorf("the audit has %d entries, %v", audited, err)
	}
}

// While sources are defined, every reading has exactly the changes up to its revision: none that is later, and each that is earlier.
func TestAReadingHasItsRevision(t *testing.T) {
	t.Parallel()
	pool, keys := inboxtest.Pool(t), storetest.RingOf(t, storetest.FirstKey+" active")
	const sources = 40
	var all sync.WaitGroup
	for i := range sources {
		all.Go(func() {
			if _, _, err := create(t, pool, keys, fmt.Sprintf("s%d", i), `{}`); err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		all.Go(func() {
			for last := int64(0); last < sources; {
				set, err := definition.Read(t.Context(), pool, keys)
				if err != nil || set.Revision < last || int64(len(set.Definitions)) != set.Revision {
					t.Errorf("revision %d after %d has %d sources, %v", set.Revision, last, len(set.Definitions), err)
					return
				}
				last = set.Revision
			}
		})
	}
	all.Wait()
}

// A definition is never stored in plain, does not open in another row, and cannot be read without its key.
func TestADefinitionIsSealed(t *testing.T) {
	t.Parallel()
	pool, keys := inboxtest.Pool(t), storetest.RingOf(t, storetest.FirstKey+" active")
	const secret = "whsec_do_not_store"
	for _, name := range []string{"a", "b"} {
		if _, _, err := create(t, pool, keys, name, `{"secrets":["`+secret+name+`"]}`); err != nil {
			t.Fatal(err)
		}
	}
	var stored []byte
	if err := pool.QueryRow(t.Context(), `SELECT content FROM source_definition WHERE name = 'a'`).Scan(&stored); err != nil || bytes.Contains(stored, []byte(secret)) {
		t.Errorf("the row has %q, %v", stored, err)
	}
	if _, err := definition.Read(t.Context(), pool, storetest.RingOf(t, storetest.SecondKey+" active")); !errors.Is(err, seal.ErrLost) {
		t.Errorf("without its key: got %v", err)
	}
	if _, _, err := create(t, pool, nil, "c", `{}`); !errors.Is(err, definition.ErrUnsealed) {
		t.Errorf("without a keyring: got %v", err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE source_definition SET content = (SELECT content FROM source_definition WHERE name = 'a') WHERE name = 'b'`); err != nil {
		t.Fatal(err)
	}
	if _, err := definition.Read(t.Context(), pool, keys); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("moved to another row: got %v", err)
	}
}

// A change is in force when the newest row of every living process that receives has announced it. The row of the same process before a
// reload does not count, and neither does a process that only works, or that takes no sources of the database.
func TestWhoServesARevision(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	process := func(name string, roles ...string) *node.Node {
		t.Helper()
		n, err := node.New(node.Config{Pool: pool, Name: name, Version: "test", Roles: roles})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	serves := func(n *node.Node, revision int64) {
		t.Helper()
		if err := n.Serve(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
	}
	behind := func(wantProcesses, wantBehind int64) {
		t.Helper()
		processes, n, err := definition.Behind(t.Context(), pool, 2, node.Silence)
		if err != nil || processes != wantProcesses || n != wantBehind {
			t.Errorf("%d of %d processes are behind, %v; want %d of %d", n, processes, err, wantBehind, wantProcesses)
		}
	}
	behind(0, 0)
	process("embedded", "receive", "work")
	serves(process("worker", "work"), 1)
	behind(0, 0)
	first, second := process("a", "receive"), process("b", "receive")
	serves(first, 1)
	serves(second, 1)
	behind(2, 2)
	reloaded := process("a", "receive")
	behind(2, 2) // it has a row, and serves nothing yet
	serves(reloaded, 2)
	behind(2, 1)
	serves(second, 2)
	behind(2, 0)
}
