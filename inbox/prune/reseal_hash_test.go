package prune_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/seal"
)

// introduction is an installation that introduces a keyring: one process has it, and one does not have it yet.
type introduction struct {
	*storetest.Past // without the keyring

	keys   *seal.Keyring
	secret inbox.InstallationSecret
	keyed  *gate.Gate
}

func newIntroduction(t *testing.T) *introduction {
	t.Helper()
	in := &introduction{Past: storetest.NewPast(t), keys: storetest.RingOf(t, storetest.FirstKey+" active")}
	err := pgx.BeginFunc(t.Context(), in.Pool, func(tx pgx.Tx) (err error) {
		in.secret, err = inbox.InstallationSecretTx(t.Context(), tx, in.keys)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	in.keyed, err = gate.New(gate.Config{
		Pool: in.Pool, Enqueuer: storetest.Queue(), Keyring: in.keys, Installation: in.secret, Clock: inbox.NewClock(in.Pool, time.Now),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.keyed.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.keyed.Stop(context.WithoutCancel(t.Context())) })
	in.At.Store(time.Now().UnixNano())
	return in
}

// deliver delivers an event to the process with the keyring, or to the one without it.
func (in *introduction) deliver(t *testing.T, keyed bool, a *inbox.Admission) inbox.ItemReceipt {
	t.Helper()
	g := in.Gate
	if keyed {
		g = in.keyed
	}
	receipt, err := g.Accept(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return receipt.Items[0]
}

// want delivers an event and checks its outcome and, if it is known already, its row.
func (in *introduction) want(t *testing.T, keyed bool, a *inbox.Admission, outcome inbox.Outcome, event inbox.ID) inbox.ItemReceipt {
	t.Helper()
	got := in.deliver(t, keyed, a)
	if got.Outcome != outcome || !event.IsZero() && got.ID != event {
		t.Errorf("keyring %t: %s %s is %s of %s, want %s of %s", keyed, a.Events[0].EventID, a.Body, got.Outcome, got.ID, outcome, event)
	}
	return got
}

func (in *introduction) reseal(t *testing.T) {
	t.Helper()
	if _, err := prune.Reseal(t.Context(), prune.ResealConfig{Pool: in.Pool, Keyring: in.keys}); err != nil {
		t.Error(err)
	}
}

func (in *introduction) admit(t *testing.T, keyed bool, conflict inbox.ID) (decide.AdmittedConflict, error) {
	t.Helper()
	a := decide.AdmitConflict{
		Pool: in.Pool, Gate: in.Gate, Clock: inbox.NewClock(in.Pool, time.Now), Source: in.Source, Conflict: conflict, Actor: "test", Reason: "a test",
	}
	if keyed {
		a.Gate, a.Keyring = in.keyed, in.keys
	}
	return a.Run(t.Context())
}

// withoutKey counts the hashes of content that have no key, and ids that are made of one.
func (in *introduction) withoutKey(t *testing.T) int {
	t.Helper()
	return in.Count(t, `SELECT (SELECT count(*) FROM inbox_event WHERE octet_length(body_sha256) <> 33 OR octet_length(canonical_sha256) <> 33)
		+ (SELECT count(*) FROM conflict WHERE octet_length(sha256) <> 33 OR octet_length(payload_sha256) <> 33)
		+ (SELECT count(*) FROM operation_follow WHERE octet_length(intent_hash) <> 33)
		+ (SELECT count(*) FROM recent_call WHERE octet_length(call_hash) <> 33)`)
}

func unusable(a *inbox.Admission) *inbox.Admission {
	a.Events[0].EventID, a.Events[0].Unusable = "", "it is no JSON"
	return a
}

// compactJSON is the canonical form of these tests.
func compactJSON(body []byte) ([]byte, bool) {
	var out bytes.Buffer
	if json.Compact(&out, body) != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// A redelivery is a duplicate, and another payload a conflict, whether the hash was stored without a key, with one, or got one by
// a reseal, also if the body is gone; and after a reseal no hash is without a key.
func TestHashesGetAKeyAndStillDecide(t *testing.T) {
	t.Parallel()
	in := newIntroduction(t)
	body := func(id string, pin int) *inbox.Admission {
		return inboxtest.AdmissionOf(in.Source, id, fmt.Sprintf(`{"id":%q,"pin":%d}`, id, pin))
	}
	broken := func() *inbox.Admission { return unusable(inboxtest.AdmissionOf(in.Source, "", "no JSON 4711")) }
	replay := func(id string) *inbox.Admission {
		a := inboxtest.AdmissionOf(in.Source, id, "the same bytes")
		a.IDUnsigned = true
		return a
	}
	before := in.want(t, false, body("before", 4711), inbox.Recorded, inbox.ID{}).ID
	in.want(t, false, body("before", 4712), inbox.Conflict, before)
	pruned := in.want(t, false, body("pruned", 4711), inbox.Recorded, inbox.ID{}).ID
	bad := in.want(t, false, broken(), inbox.Recorded, inbox.ID{}).ID
	in.want(t, false, replay("replayed"), inbox.Recorded, inbox.ID{})
	if got := in.want(t, true, replay("replayed again"), inbox.Recorded, inbox.ID{}); !got.SuspectedReplay {
		t.Error("the bytes of an event from before the keyring are not suspected under another id")
	}
	after := in.want(t, true, body("after", 4711), inbox.Recorded, inbox.ID{}).ID
	again := func() {
		t.Helper()
		in.want(t, true, body("before", 4711), inbox.Duplicate, before)
		in.want(t, true, body("before", 4713), inbox.Conflict, before)
		in.want(t, true, body("pruned", 4711), inbox.Duplicate, pruned)
		in.want(t, true, body("pruned", 4712), inbox.Conflict, pruned)
		in.want(t, true, body("after", 4711), inbox.Duplicate, after)
		in.want(t, true, body("after", 4712), inbox.Conflict, after)
		in.want(t, true, broken(), inbox.Duplicate, bad)
	}
	again()
	in.Exec(t, `DELETE FROM inbox_body WHERE id = (SELECT body_id FROM inbox_event WHERE event_id = 'pruned')`)
	again()
	in.reseal(t)
	again()
	if n := in.withoutKey(t); n > 0 {
		t.Errorf("%d hashes have no key after the reseal", n)
	}
	if got := in.want(t, true, replay("replayed once more"), inbox.Recorded, inbox.ID{}); !got.SuspectedReplay {
		t.Error("the bytes of an event are not suspected under another id after the reseal")
	}
	for _, text := range []string{`{"id":"before","pin":4711}`, `{"id":"pruned","pin":4711}`, `{"id":"after","pin":4711}`, "no JSON 4711"} {
		sum := sha256.Sum256([]byte(text))
		mac := hmac.New(sha256.New, in.secret.Value)
		mac.Write([]byte("oncegate content\x00"))
		mac.Write(sum[:])
		if n := in.Count(t, `SELECT count(*) FROM inbox_event WHERE body_sha256 = $1 OR event_id LIKE '%' || encode($1, 'hex') || '%'`, sum[:]); n > 0 {
			t.Errorf("the hash of %s is stored without a key", text)
		}
		if n := in.Count(t, `SELECT count(*) FROM inbox_event WHERE body_sha256 = '\x01' || $1::bytea`, mac.Sum(nil)); n != 1 {
			t.Errorf("the hash of %s is stored with the key %d times", text, n)
		}
	}
	// The process without the keyring cannot compare, so it takes the redelivery for a conflict and keeps it. It acts on nothing.
	events := in.Count(t, `SELECT count(*) FROM inbox_event`)
	in.want(t, false, body("after", 4711), inbox.Conflict, after)
	if n := in.Count(t, `SELECT count(*) FROM inbox_event`); n != events {
		t.Errorf("the process without the keyring recorded %d events", n-events)
	}
}

// The same holds for what operations compare: canonical forms, also of a comparison of before.
func TestCanonicalHashesGetAKeyAndStillDecide(t *testing.T) {
	t.Parallel()
	in := newIntroduction(t)
	in.Source.Strict, in.Source.Canonical = true, compactJSON
	spaced := &inbox.Comparison{Canonical: compactJSON, Mark: "first\n"}
	first := *in.Source
	first.Comparisons = map[string]*inbox.Comparison{"invoice.paid": spaced}
	second := *in.Source
	second.Comparisons = map[string]*inbox.Comparison{"invoice.paid": {Canonical: compactJSON, Mark: "second\n", Former: []*inbox.Comparison{spaced}}}
	of := func(source *inbox.Source, id, body string) *inbox.Admission {
		a := inboxtest.AdmissionOf(source, id, body)
		a.Events[0].Type = "invoice.paid"
		return a
	}
	before := in.want(t, false, of(&first, "before", `{"pin":4711}`), inbox.Recorded, inbox.ID{}).ID
	after := in.want(t, true, of(&first, "after", `{"pin":4711}`), inbox.Recorded, inbox.ID{}).ID
	again := func() {
		t.Helper()
		for id, row := range map[string]inbox.ID{"before": before, "after": after} {
			for _, source := range []*inbox.Source{&first, &second} {
				in.want(t, true, of(source, id, `{"pin":4711}`), inbox.Duplicate, row)
				in.want(t, true, of(source, id, `{ "pin": 4711 }`), inbox.Duplicate, row)
				in.want(t, true, of(source, id, `{"pin":4712}`), inbox.Conflict, row)
			}
		}
	}
	again()
	in.Exec(t, `DELETE FROM inbox_body`)
	again()
	in.reseal(t)
	again()
	if n := in.withoutKey(t); n > 0 {
		t.Errorf("%d hashes have no key after the reseal", n)
	}
}

// Of two calls that follow one call with the same intent, or that repeat each other under another key, one is recorded, in whichever
// form the hash of the first is stored.
func TestCallsMeetWhenTheirHashesGetAKey(t *testing.T) {
	t.Parallel()
	in := newIntroduction(t)
	store, err := operation.New(operation.Config{Pool: in.Pool, Keyring: in.keys, Installation: in.secret})
	if err != nil {
		t.Fatal(err)
	}
	call := func(key string, hash [sha256.Size]byte, follow *inbox.Follow) *inbox.Admission {
		a := inboxtest.Admission(in.Source, key)
		if follow != nil {
			f := *follow
			f.Intent, a.Events[0].Follows = hash, &f
		} else {
			a.Events[0].Recent = &inbox.RecentCall{Hash: hash, Within: time.Hour, Refuse: true}
		}
		return a
	}
	accept := func(keyed bool, a *inbox.Admission) error {
		g := in.Gate
		if keyed {
			g = in.keyed
		}
		_, err := g.Accept(t.Context(), a)
		return err
	}
	same, other := inbox.RecentCallHash("agent", "pay", []byte("same")), inbox.RecentCallHash("agent", "pay", []byte("other"))
	for _, resealed := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			for _, second := range []bool{false, true} {
				if resealed && !second {
					continue // after the reseal every process has the keyring
				}
				name := fmt.Sprintf("%t-%t-%t", resealed, first, second)
				for _, kind := range []inbox.FollowKind{inbox.FollowInsteadOf, inbox.FollowResumes} {
					key := fmt.Sprint(name, kind)
					parent := in.want(t, first, inboxtest.Admission(in.Source, "parent-"+key), inbox.Recorded, inbox.ID{}).ID
					in.Exec(t, `INSERT INTO operation_result (event_id, status, document, rendered_at) VALUES ($1, 'failed', '{}', now())`, parent)
					follow := &inbox.Follow{Kind: kind, Parent: parent, ParentKey: "parent-" + key}
					if err := accept(first, call("child-"+key, same, follow)); err != nil {
						t.Fatal(err)
					}
					if resealed {
						in.reseal(t)
					}
					if err := accept(second, call("again-"+key, same, follow)); !errors.Is(err, inbox.ErrNotFollowed) {
						t.Errorf("%s: the second call with an intent: %v", key, err)
					}
					f := *follow
					f.Intent = same
					if found, err := store.FollowedCall(t.Context(), &f); err != nil || found.Follower.IsZero() {
						t.Errorf("%s: the store sees no follower: %+v, %v", key, found, err)
					}
					if kind == inbox.FollowInsteadOf && second {
						if err := accept(second, call("else-"+key, other, follow)); err != nil {
							t.Errorf("%s: a call with another intent: %v", key, err)
						}
					}
				}
				if first && !second {
					continue // the process without the keyring cannot compare: the guide says so
				}
				hash := inbox.RecentCallHash("agent", "pay", []byte(name))
				if err := accept(first, call("call-"+name, hash, nil)); err != nil {
					t.Fatal(err)
				}
				if resealed {
					in.reseal(t)
				}
				if _, key, err := store.RecentCall(t.Context(), in.Source.ID, hash); err != nil || key != "call-"+name {
					t.Errorf("%s: the store finds the call %q: %v", name, key, err)
				}
				if err := accept(second, call("repeat-"+name, hash, nil)); !errors.Is(err, inbox.ErrSuspectedRepeat) {
					t.Errorf("%s: the call under another key: %v", name, err)
				}
			}
		}
	}
	in.reseal(t)
	if n := in.withoutKey(t); n > 0 {
		t.Errorf("%d hashes have no key after the reseal", n)
	}
}

// While a reseal runs, redeliveries stay duplicates, and conflicts are kept once.
func TestResealWhileDeliveriesRun(t *testing.T) {
	t.Parallel()
	in := newIntroduction(t)
	const events, workers = 240, 4
	own := func(n int) *inbox.Admission {
		return inboxtest.AdmissionOf(in.Source, fmt.Sprint("evt-", n), `{"pin":1}`)
	}
	conflict := func(n int) *inbox.Admission {
		return inboxtest.AdmissionOf(in.Source, fmt.Sprint("evt-", n), `{"pin":2}`)
	}
	broken := func(n int) *inbox.Admission {
		return unusable(inboxtest.AdmissionOf(in.Source, "", fmt.Sprint("no JSON ", n)))
	}
	rows := make([]inbox.ID, events)
	bad := make([]inbox.ID, events)
	for n := range events {
		rows[n] = in.want(t, false, own(n), inbox.Recorded, inbox.ID{}).ID
		bad[n] = in.want(t, false, broken(n), inbox.Recorded, inbox.ID{}).ID
		if n%4 == 0 {
			in.want(t, false, conflict(n), inbox.Conflict, rows[n])
		}
	}
	done := make(chan struct{})
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for round := 0; ; round++ {
				for n := w; n < events; n += workers {
					for _, d := range []struct {
						a     *inbox.Admission
						want  inbox.Outcome
						event inbox.ID
					}{{own(n), inbox.Duplicate, rows[n]}, {broken(n), inbox.Duplicate, bad[n]}, {conflict(n), inbox.Conflict, rows[n]}} {
						if d.want == inbox.Conflict && n%4 != round%4 {
							continue
						}
						receipt, err := in.keyed.Accept(t.Context(), d.a)
						if err != nil {
							t.Errorf("%s: %v", d.a.Body, err)
						} else if got := receipt.Items[0]; got.Outcome != d.want || got.ID != d.event {
							t.Errorf("during the reseal %s is %s of %s, want %s of %s", d.a.Body, got.Outcome, got.ID, d.want, d.event)
						}
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	in.reseal(t)
	close(done)
	all.Wait()
	if n := in.withoutKey(t); n > 0 {
		t.Errorf("%d hashes have no key", n)
	}
	if n := in.Count(t, `SELECT count(*) FROM inbox_event`); n != 2*events {
		t.Errorf("there are %d events, want %d", n, 2*events)
	}
	if n := in.Count(t, `SELECT count(*) - count(DISTINCT event_id) FROM conflict`); n != 0 {
		t.Errorf("%d payloads are kept twice", n)
	}
}
