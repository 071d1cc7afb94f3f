package decide_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
)

func payload(id string, n int) string { return fmt.Sprintf(`{"id":%q,"attempt":1,"amount":%d}`, id, n) }

func sum(body string) string {
	s := sha256.Sum256([]byte(body))
	return hex.EncodeToString(s[:])
}

// What is acknowledged is kept: also a payload whose event id stands for another
// one. The newest 5 different ones of an event are, and all are counted.
func TestConflictingPayloadsAreKept(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]*seal.Keyring{"plain": nil, "sealed": storetest.RingOf(t, storetest.FirstKey+" active")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := storetest.NewPast(t)
			p.Sealing(t, keys)
			event := p.Accept(t, inboxtest.AdmissionOf(p.Source, "evt_1", payload("evt_1", 0)), 0).Items[0].ID
			for _, n := range []int{1, 2, 3, 4, 5, 6, 2, 2} {
				item := p.Accept(t, inboxtest.AdmissionOf(p.Source, "evt_1", payload("evt_1", n)), 0).Items[0]
				if item.Outcome != inbox.Conflict || item.ID != event {
					t.Fatalf("payload %d gave %+v", n, item)
				}
			}
			// A member that the provider changes between deliveries makes no other payload.
			volatile := strings.Replace(payload("evt_1", 6), `"attempt":1`, `"attempt":9`, 1)
			if item := p.Accept(t, inboxtest.AdmissionOf(p.Source, "evt_1", volatile), 0).Items[0]; item.Outcome != inbox.Conflict {
				t.Fatalf("%+v", item)
			}
			rows, bodies := p.Conflicts(t, keys)
			slices.Sort(bodies)
			if want := []string{payload("evt_1", 2), payload("evt_1", 3), payload("evt_1", 4), payload("evt_1", 5), payload("evt_1", 6)}; !slices.Equal(bodies, want) {
				t.Errorf("kept are %q, want %q", bodies, want)
			}
			deliveries := 0
			for _, row := range rows {
				deliveries += row.Deliveries
				if row.Event != event || row.EventID != "evt_1" || row.Type != "test.happened" || !slices.Equal(row.Paths, []string{"$.amount"}) {
					t.Errorf("%+v", row)
				}
			}
			detail, err := inboxtest.Lister(p.Pool).Event(t.Context(), event.String())
			if err != nil || detail.Conflicts != 9 || detail.ConflictsKept != 5 || deliveries != 8 || p.Gate.Stats().Displaced != 1 {
				t.Errorf("%d conflicts of which %d payloads are kept, delivered %d times, %d displaced, %v: want 9, 5, 8, 1",
					detail.Conflicts, detail.ConflictsKept, deliveries, p.Gate.Stats().Displaced, err)
			}
			stored := p.Count(t, `SELECT count(*) FROM conflict WHERE position('amount'::bytea IN body) > 0`)
			if sealed := keys != nil; sealed != (stored == 0) {
				t.Errorf("%d payloads stand in plain, sealed %t", stored, sealed)
			}
		})
	}
}

// A delivery whose payload could not be kept is not acknowledged.
func TestConflictThatIsNotKeptIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	b := storetest.NewBench(t, nil)
	b.Start(t)
	if _, err := b.Gate.Accept(t.Context(), inboxtest.AdmissionOf(b.Source, "evt_1", payload("evt_1", 0))); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Pool.Exec(t.Context(), `ALTER TABLE conflict ADD CONSTRAINT full_disk CHECK (false) NOT VALID`); err != nil {
		t.Fatal(err)
	}
	if receipt, err := b.Gate.Accept(t.Context(), inboxtest.AdmissionOf(b.Source, "evt_1", payload("evt_1", 1))); !errors.Is(err, gate.ErrUnavailable) {
		t.Errorf("got %+v, %v, want ErrUnavailable", receipt, err)
	}
	if receipt, err := b.Gate.Accept(t.Context(), inboxtest.AdmissionOf(b.Source, "evt_1", payload("evt_1", 0))); err != nil || receipt.Items[0].Outcome != inbox.Duplicate {
		t.Errorf("a duplicate gave %+v, %v: it has nothing to keep", receipt, err)
	}
}

// An operation is told what differs, and nothing of its payload is kept.
func TestConflictOfAnOperationIsNotKept(t *testing.T) {
	t.Parallel()
	b := storetest.NewBench(t, nil)
	b.Source.Strict = true
	b.Start(t)
	for n, want := range []inbox.Outcome{inbox.Recorded, inbox.Conflict} {
		receipt, err := b.Gate.Accept(t.Context(), inboxtest.AdmissionOf(b.Source, "op_1", payload("op_1", n)))
		if err != nil || receipt.Items[0].Outcome != want {
			t.Fatalf("%+v, %v, want %s", receipt, err, want)
		}
	}
	var kept int
	b.Scan(t, `SELECT count(*) FROM conflict`, &kept)
	if kept != 0 {
		t.Errorf("%d payloads are kept, want none", kept)
	}
}

// Whoever admits a conflict twice, or is cut off in between, gets one event, with
// its effects and their jobs.
func TestConflictIsAdmittedOnce(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	keys := storetest.RingOf(t, storetest.FirstKey+" active")
	p.Sealing(t, keys)
	p.Accept(t, inboxtest.AdmissionOf(p.Source, "evt_1", payload("evt_1", 0)), 0)
	other := payload("evt_1", 7)
	a := inboxtest.AdmissionOf(p.Source, "evt_1", other)
	a.Headers = []byte(`{"X-Kept":["yes"]}`)
	p.Accept(t, a, 0)
	rows, _ := p.Conflicts(t, keys)
	admit := decide.AdmitConflict{
		Pool: p.Pool, Gate: p.Gate, Keyring: keys, Clock: inbox.NewClock(p.Pool, time.Now), Source: p.Source, Conflict: rows[0].ID, Actor: "test", Reason: "a test",
	}
	want := "evt_1~" + sum(other)[:12]
	var event inbox.ID
	for i, outcome := range []inbox.Outcome{inbox.Recorded, inbox.Duplicate, inbox.Duplicate} {
		if i == 2 { // as if the process had died before it noted the admission
			p.Exec(t, `UPDATE conflict SET admitted_at = NULL, admitted_as = NULL`)
		}
		got, err := admit.Run(t.Context())
		if err != nil || got.EventID != want || got.Outcome != outcome || i > 0 && got.Event != event {
			t.Fatalf("time %d: %+v, %v, want %s as %s", i+1, got, err, outcome, want)
		}
		event = got.Event
	}
	lister := inboxtest.Lister(p.Pool).WithKeyring(keys)
	body, err := lister.Body(t.Context(), event)
	if err != nil || string(body) != other {
		t.Errorf("the body is %q, %v", body, err)
	}
	if n := p.Count(t, `SELECT count(*) FROM effect f JOIN river_job j ON j.id = f.job_id WHERE f.event_id = $1 AND f.state = 'pending'`, event); n != 1 {
		t.Errorf("%d effects with a job, want 1", n)
	}
	if _, headers, _ := p.Delivery(t, keys, event); headers != `{"X-Kept":["yes"]}` {
		t.Errorf("the headers are %s", headers)
	}
	row, err := lister.Conflict(t.Context(), rows[0].ID)
	if err != nil || row.AdmittedAs == nil || *row.AdmittedAs != event || row.AdmittedAt == nil {
		t.Errorf("%+v, %v", row, err)
	}
	if n := p.Count(t, `SELECT count(*) FROM audit WHERE action = 'conflict.admit' AND actor = 'test' AND reason = 'a test'`); n != 3 {
		t.Errorf("%d entries in the audit, want 3", n)
	}
	// One that was admitted does not make room for others.
	for n := range 8 {
		p.Accept(t, inboxtest.AdmissionOf(p.Source, "evt_1", payload("evt_1", 100+n)), 0)
	}
	if rows, bodies := p.Conflicts(t, keys); len(rows) != 6 || !slices.Contains(bodies, other) {
		t.Errorf("kept are %q", bodies)
	}
	admit.Reason = ""
	if _, err := admit.Run(t.Context()); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
	admit.Reason, admit.Conflict = "a test", event
	if _, err := admit.Run(t.Context()); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("of something else: %v", err)
	}
}

// The id of an admitted conflict fits into the column, and is another one for each
// event and payload.
func TestAdmittedEventID(t *testing.T) {
	t.Parallel()
	one, two := sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two"))
	if got := read.AdmittedEventID("evt_1", one[:]); got != "evt_1~7692c3ad3540" { // sha256sum of "one"
		t.Errorf("%s", got)
	}
	if got := read.AdmittedEventID(strings.Repeat("x", 242), one[:]); got != strings.Repeat("x", 242)+"~7692c3ad3540" {
		t.Errorf("%s", got)
	}
	seen := map[string]bool{}
	for _, id := range []string{strings.Repeat("x", 243), strings.Repeat("x", 255), strings.Repeat("é", 127), strings.Repeat("x", 254) + "y"} {
		for _, sum := range [][]byte{one[:], two[:]} {
			got := read.AdmittedEventID(id, sum)
			if len(got) > 255 || strings.ToValidUTF8(got, "") != got || seen[got] {
				t.Errorf("%d bytes of %s", len(got), got)
			}
			seen[got] = true
		}
	}
}

// Prune takes a payload that was last delivered before the body horizon, and never
// an event before its payloads; erase takes all of an event's; a reseal brings them
// under the active key.
func TestConflictsGoWithTheirHorizonAndEvent(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	keys := storetest.RingOf(t, storetest.FirstKey+" active")
	p.Sealing(t, keys)
	for _, id := range []string{"evt_old", "evt_new", "evt_gone"} {
		p.Settle(t, p.Accept(t, inboxtest.AdmissionOf(p.Source, id, payload(id, 0)), 40*storetest.Day).Items[0].ID, inbox.EffectDone, 40*storetest.Day)
		p.Accept(t, inboxtest.AdmissionOf(p.Source, id, payload(id, 1)), 0)
	}
	p.Exec(t, `UPDATE conflict SET last_seen_at = now() - interval '8 days' WHERE event_id = (SELECT id FROM inbox_event WHERE event_id = 'evt_old')`)
	out := p.EraseWith(t, keys, "evt_gone")
	if out.Conflicts != 1 || len(out.Admitted) != 0 {
		t.Errorf("erased %+v, want one conflict", out)
	}
	counts, err := p.Pruner(t).DryRun(t.Context(), prune.Run{})
	if err != nil {
		t.Fatal(err)
	}
	foreseen := map[string]int64{}
	for _, c := range counts {
		foreseen[c.Table] += c.Rows
	}
	report := p.Prune(t)
	if report.Rows["conflict"] != 1 || foreseen["conflict"] != 1 || report.Rows["inbox_event"] != foreseen["inbox_event"] {
		t.Errorf("pruned %v, foreseen %v: want one conflict, and as many events as foreseen", report.Rows, foreseen)
	}
	if n := p.Count(t, `SELECT count(*) FROM inbox_event WHERE event_id = 'evt_new'`); n != 1 {
		t.Error("an event went before a payload that conflicts with it")
	}
	rows, _ := p.Conflicts(t, keys)
	if len(rows) != 1 || rows[0].EventID != "evt_new" {
		t.Fatalf("%+v", rows)
	}
	both := storetest.RingOf(t, storetest.FirstKey+"\n"+storetest.SecondKey+" active")
	if end, err := prune.Reseal(t.Context(), prune.ResealConfig{Pool: p.Pool, Keyring: both}); err != nil || end.Unreadable != 0 {
		t.Fatalf("%+v, %v", end, err)
	}
	usages, err := prune.KeyUsages(t.Context(), p.Pool)
	if err != nil {
		t.Fatal(err)
	}
	if at := slices.IndexFunc(usages, func(u prune.KeyUsage) bool { return u.Table == "conflict" }); at < 0 || usages[at].Key != 2 || usages[at].Values != 1 {
		t.Errorf("%+v", usages)
	}
	p.Conflicts(t, storetest.RingOf(t, storetest.SecondKey+" active"))
}
