package inbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// orderMark is an order key that stands in no table where it is sealed or erased.
const orderMark = "mark-ada@example.org"

// ordered makes the source's route keep an order, and gives an event of the mark's stream.
func (p *past) ordered(id, number string) *inbox.Admission {
	p.Source.Routes[0].Order = sequence.Policy{Mode: sequence.Contiguous, Start: "1"}
	a := inboxtest.Admission(p.Source, id)
	a.Events[0].SequenceKey, a.Events[0].SequenceNumber = orderMark, number
	return a
}

// holding names the tables that hold the mark, as text or as bytes.
func (p *past) holding(t *testing.T) (tables []string) {
	t.Helper()
	for table := range inboxtest.Tables(t, p.Pool) {
		if n := p.Count(t, fmt.Sprintf(`SELECT count(*) FROM %q r WHERE r::text LIKE '%%%s%%' OR r::text LIKE '%%'||encode('%s', 'hex')||'%%'`, table, orderMark, orderMark)); n > 0 {
			tables = append(tables, table)
		}
	}
	return tables
}

func (p *past) streamsOf(t *testing.T, keys *seal.Keyring, key string) []read.StreamRow {
	t.Helper()
	rows, err := inboxtest.Rows(inboxtest.Lister(p.Pool).WithKeyring(keys).Streams(t.Context(), read.StreamFilter{Key: key}))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// With a keyring the order key of a stream, and that of a payload which conflicts with its
// event, are sealed; people see them and find streams by them as before.
func TestOrderKeysAreSealed(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	keys := storetest.RingOf(t, storetest.FirstKey+" active")
	p.Sealing(t, keys)
	p.Accept(t, p.ordered("evt_1", "1"), 0)
	conflicting := p.ordered("evt_1", "2")
	conflicting.Body = []byte(strings.Replace(string(conflicting.Body), "{", `{"other":1,`, 1))
	conflicting.Events[0].Length = len(conflicting.Body)
	p.Accept(t, conflicting, 0)
	if tables := p.holding(t); len(tables) > 0 {
		t.Errorf("the order key stands in %v", tables)
	}
	if rows := p.streamsOf(t, keys, orderMark); len(rows) != 1 || rows[0].Key != orderMark || rows[0].KeyMissing != 0 {
		t.Errorf("found by its key: %+v", rows)
	}
	if rows := p.streamsOf(t, keys, "another"); len(rows) != 0 {
		t.Errorf("found by another key: %+v", rows)
	}
	if rows := p.streamsOf(t, storetest.RingOf(t, storetest.SecondKey+" active"), orderMark); len(rows) != 1 || rows[0].Key != "" || rows[0].KeyMissing != 1 {
		t.Errorf("without the sealing key: %+v", rows)
	}

	// The payload that conflicted takes its place in the same stream when it is admitted.
	rows, _ := p.Conflicts(t, keys)
	got, err := decide.AdmitConflict{
		Pool: p.Pool, Gate: p.Gate, Keyring: keys, Clock: inbox.NewClock(p.Pool, time.Now), Source: p.Source, Conflict: rows[0].ID, Actor: "test", Reason: "a test",
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Count(t, `SELECT count(*) FROM effect e JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash
		WHERE e.event_id = $1 AND e.sequence_number = 2`, got.Event); n != 1 || p.Count(t, `SELECT count(*) FROM stream`) != 1 {
		t.Errorf("the payload that was admitted has no place in its stream")
	}
}

// A walk brings order keys that stand in plain, and those under another key, under the
// active one; what it has done can be counted, so that no key goes that is needed.
func TestOrderKeysAreResealed(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.Accept(t, p.ordered("evt_1", "1"), 0)
	conflicting := p.ordered("evt_1", "\xff2")
	conflicting.Body = []byte(strings.Replace(string(conflicting.Body), "{", `{"other":1,`, 1))
	conflicting.Events[0].Length = len(conflicting.Body)
	p.Accept(t, conflicting, 0)
	p.Exec(t, `INSERT INTO stream (route_id, key_hash) VALUES ($1, sha256('none'))`, p.Source.Routes[0].ID) // one without a key for people
	if tables := p.holding(t); len(tables) == 0 {
		t.Error("without a keyring no table holds the order key: the search finds nothing")
	}
	for i, text := range []string{storetest.FirstKey + " active", storetest.FirstKey + "\n" + storetest.SecondKey + " active"} {
		keys := storetest.RingOf(t, text)
		end, err := prune.Reseal(t.Context(), prune.ResealConfig{Pool: p.Pool, Keyring: keys})
		if err != nil || end.Unreadable != 0 {
			t.Fatalf("%+v, %v", end, err)
		}
		if tables := p.holding(t); len(tables) > 0 {
			t.Errorf("the order key stands in %v", tables)
		}
		if rows := p.streamsOf(t, keys, orderMark); len(rows) != 1 || rows[0].Key != orderMark {
			t.Errorf("%+v", rows)
		}
		usages, err := prune.KeyUsages(t.Context(), p.Pool)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, u := range usages {
			if u.Column == "key_label" || u.Column == "sequence" {
				found++
				if u.Key != int32(i+1) || u.Values != 1 {
					t.Errorf("%+v, want 1 value under key %d", u, i+1)
				}
			}
		}
		if found != 2 {
			t.Errorf("%+v, want one line for each of the two columns", usages)
		}
		if again, err := prune.Reseal(t.Context(), prune.ResealConfig{Pool: p.Pool, Keyring: keys}); err != nil || again.Resealed != 0 {
			t.Errorf("a second walk: %+v, %v", again, err)
		}
	}
	keys := storetest.RingOf(t, storetest.SecondKey+" active")
	rows, _ := p.Conflicts(t, keys)
	got, err := decide.AdmitConflict{
		Pool: p.Pool, Gate: p.Gate, Keyring: keys, Clock: inbox.NewClock(p.Pool, time.Now), Source: p.Source, Conflict: rows[0].ID, Actor: "test", Reason: "a test",
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The number is none, which costs its place in the order and not its stream.
	if n := p.Count(t, `SELECT count(*) FROM effect WHERE event_id = $1 AND reason = 'sequence_number_missing'
		AND sequence_key_hash = $2`, got.Event, inbox.SequenceKeyHash("stripe", "all", orderMark)); n != 1 {
		t.Error("what was resealed is not the key and the number that came")
	}
}

// An erased event takes the order key of its stream along, with a keyring or without one,
// though others are in the stream. What comes later belongs to the same stream, and does
// not bring the key back.
func TestEraseTakesTheOrderKey(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]*seal.Keyring{"plain": nil, "sealed": storetest.RingOf(t, storetest.FirstKey+" active")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPast(t)
			p.Sealing(t, keys)
			first := p.Accept(t, p.ordered("evt_1", "1"), 0).Items[0].ID
			p.Settle(t, first, inbox.EffectDead, 0)
			dead := p.Accept(t, p.ordered("evt_2", "2"), 0).Items[0].ID
			p.Settle(t, dead, inbox.EffectHeld, 0)
			bystander := p.ordered("evt_3", "1")
			bystander.Events[0].SequenceKey = "someone else"
			p.Accept(t, bystander, 0)
			stream := p.Count(t, `SELECT s.id FROM stream s JOIN effect e ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash WHERE e.event_id = $1`, first)
			p.Exec(t, `UPDATE stream SET applied = 0, blocked_by = (SELECT id FROM effect WHERE event_id = $2) WHERE id = $1`, stream, first)
			before := p.Count(t, `SELECT ('x' || substr(md5(s.id || ' ' || s.applied || ' ' || s.blocked_by || s.key_hash), 1, 8))::bit(32)::int FROM stream s WHERE id = $1`, stream)

			for i, want := range []int{1, 0} {
				if out := p.EraseWith(t, keys, "evt_1"); out.Streams != want {
					t.Errorf("time %d: %d streams lost their key, want %d", i+1, out.Streams, want)
				}
			}
			if tables := p.holding(t); len(tables) > 0 {
				t.Errorf("the order key stands in %v", tables)
			}
			after := p.Count(t, `SELECT ('x' || substr(md5(s.id || ' ' || s.applied || ' ' || s.blocked_by || s.key_hash), 1, 8))::bit(32)::int FROM stream s WHERE id = $1`, stream)
			if before != after {
				t.Error("the stream has moved")
			}
			p.Accept(t, p.ordered("evt_4", "3"), 0)
			if tables := p.holding(t); len(tables) > 0 {
				t.Errorf("a later delivery brought the order key back: %v", tables)
			}
			rows := p.streamsOf(t, keys, orderMark)
			if len(rows) != 1 || rows[0].ID != int64(stream) || rows[0].Key != "" || rows[0].KeyMissing != 0 || rows[0].Applied != "0" {
				t.Errorf("found by its key: %+v, want stream %d without a key", rows, stream)
			}
			if n := p.Count(t, `SELECT count(*) FROM effect e JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash WHERE s.id = $1`, stream); n != 3 {
				t.Errorf("%d effects are in the stream, want 3", n)
			}
			if rows := p.streamsOf(t, keys, "someone else"); len(rows) != 1 || rows[0].Key != "someone else" {
				t.Errorf("another stream: %+v", rows)
			}
		})
	}
}

// Nobody waits for a stream that somebody has locked: the erasure is refused, and nothing
// of it has happened.
func TestEraseLeavesALockedStream(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	id := p.Accept(t, p.ordered("evt_1", "1"), 0).Items[0].ID
	p.Settle(t, id, inbox.EffectDone, 0)
	tx, err := p.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM stream FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Erase(t, "evt_1"); !errors.Is(err, inbox.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	if _, _, body := p.Has(t, id); !body {
		t.Error("the body is gone, though the erasure was refused")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := p.Erase(t, "evt_1"); err != nil || out.Streams != 1 {
		t.Errorf("once it is free: %+v, %v", out, err)
	}
}

// A contiguous stream stays for ever, its key only as long as an effect of it.
func TestPruneForgetsOrderKeys(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	route := p.Source.Routes[0].ID
	p.Exec(t, `UPDATE route_version SET definition = '{"order": {"mode": "contiguous"}}' WHERE route_id = $1`, route)
	p.Exec(t, `INSERT INTO stream (route_id, key_hash, key_label, updated_at, applied) VALUES
		($1, sha256('idle'), 'idle', now() - interval '300 days', 5), ($1, sha256('fresh'), 'fresh', now(), 5), ($1, sha256('busy'), 'busy', now() - interval '300 days', 5)`, route)
	id := p.Deliver(t, "evt_1", 0, inbox.EffectDead)
	p.Exec(t, `UPDATE effect SET sequence_key_hash = sha256('busy') WHERE event_id = $1`, id)
	p.Prune(t)
	if n := p.Count(t, `SELECT count(*) FROM stream WHERE applied = 5 AND CASE key_hash WHEN sha256('idle') THEN key_label IS NULL ELSE key_label IS NOT NULL END`); n != 3 {
		t.Errorf("%d of 3 streams are as they should be", n)
	}
}
