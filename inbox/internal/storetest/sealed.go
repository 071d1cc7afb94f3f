package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
)

// FirstKey and SecondKey are keyrings of one key, as text.
const (
	FirstKey  = "1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	SecondKey = "2 ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
)

// RingOf returns the keyring of a text.
func RingOf(tb testing.TB, text string) *seal.Keyring {
	tb.Helper()
	keys, err := seal.New(func() ([]byte, error) { return []byte(text), nil }, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

// Sealing replaces the gate with one of the same schema that seals with the keys.
func (p *Past) Sealing(t *testing.T, keys *seal.Keyring) {
	t.Helper()
	gate, err := gate.New(gate.Config{
		Pool: p.Pool, Enqueuer: Queue(), Keyring: keys,
		Clock: inbox.NewClock(p.Pool, func() time.Time { return time.Unix(0, p.At.Load()) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Stop(context.WithoutCancel(t.Context())) })
	p.Gate = gate
}

// EraseWith erases an event whose content is sealed.
func (p *Past) EraseWith(t *testing.T, keys *seal.Keyring, key string) prune.Erased {
	t.Helper()
	out, err := prune.EraseEvent(t.Context(), p.Pool, prune.Erase{Source: "stripe", EventID: key, Actor: "test", Reason: "a test", Keyring: keys})
	if err != nil {
		t.Fatalf("erasing %s: %v", key, err)
	}
	return out
}

// Delivery opens a stored delivery.
func (p *Past) Delivery(t *testing.T, keys *seal.Keyring, event inbox.ID) (key int32, headers, body string) {
	t.Helper()
	var id inbox.ID
	var stored [2][]byte
	err := p.Pool.QueryRow(t.Context(), `SELECT b.id, b.key_id, b.headers, b.body FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id AND b.class = e.class WHERE e.id = $1`, event).
		Scan(&id, &key, &stored[0], &stored[1])
	if err != nil {
		t.Fatal(err)
	}
	for i, column := range []string{"headers", "body"} {
		if stored[i], err = keys.Open(seal.Place{Table: "inbox_body", Column: column, Row: id}, &key, stored[i]); err != nil {
			t.Fatalf("the %s of the delivery: %v", column, err)
		}
	}
	return key, string(stored[0]), string(stored[1])
}

// Erase erases an event.
func (p *Past) Erase(t *testing.T, key string) (prune.Erased, error) {
	t.Helper()
	return prune.EraseEvent(t.Context(), p.Pool, prune.Erase{Source: "stripe", EventID: key, Actor: "test", Reason: "a test"})
}

// Conflicts returns the payloads that are kept, opened, those first seen last first.
func (p *Past) Conflicts(t *testing.T, keys *seal.Keyring) (rows []read.ConflictRow, bodies []string) {
	t.Helper()
	lister := inboxtest.Lister(p.Pool).WithKeyring(keys)
	rows, err := inboxtest.Rows(lister.Conflicts(t.Context(), read.ConflictFilter{Source: "stripe"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		body, err := lister.ConflictBody(t.Context(), row.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(body) != row.Bytes || row.SHA256 != "" && fmt.Sprintf("%x", sha256.Sum256(body)) != row.SHA256 {
			t.Errorf("conflict %s says %d bytes of %s, and holds %q", row.ID, row.Bytes, row.SHA256, body)
		}
		bodies = append(bodies, string(body))
	}
	return rows, bodies
}
