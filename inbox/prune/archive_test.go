package prune_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/seal"
)

const past = 10 * storetest.Day // bodies are due, and their events are not

// TestArchive: what prune removes is in the archive, by class and day, and is read back as it was: from a plain and a sealed body, an
// own one and a part of a shared one, and one that is no text.
func TestArchive(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]*seal.Keyring{"plain": nil, "sealed": storetest.RingOf(t, storetest.FirstKey+" active")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newArchived(t, keys)
			want := map[inbox.ID]string{}
			binary := inboxtest.Admission(p.Source, "evt_binary")
			binary.Body, binary.Events[0].Length = []byte("\x00\xff\xfe<&>\u2028"), 8
			batch := inboxtest.Batch(p.Source, "evt_1", "evt_2", "evt_3")
			batch.Headers = []byte(`{"X-Batch":["b"]}`)
			for _, a := range []*inbox.Admission{binary, batch} {
				for _, item := range p.Accept(t, a, past).Items {
					p.Settle(t, item.ID, inbox.EffectDone, past)
					body, err := p.lister().Body(t.Context(), item.ID)
					if err != nil {
						t.Fatal(err)
					}
					want[item.ID] = string(body)
				}
			}
			young := p.Deliver(t, "evt_young", storetest.Day, inbox.EffectDone)
			counts, err := p.pruner(t).DryRun(t.Context(), prune.Run{})
			if err != nil {
				t.Fatal(err)
			}
			planned := int64(0)
			for _, c := range counts {
				planned += c.Archived
			}
			report := p.prune(t)
			if report.Archived.Bodies != 2 || report.Archived.Objects != 1 || report.Archived.Bytes == 0 || planned != 2 || len(report.Partitions) == 0 {
				t.Errorf("%+v, %d planned: %+v", report, planned, counts)
			}
			for id, body := range want {
				if _, _, inDatabase := p.Has(t, id); inDatabase {
					t.Error("a body is still in the database")
				}
				if got, err := p.lister().Body(t.Context(), id); err != nil || string(got) != body {
					t.Errorf("%q, %v; want %q", got, err, body)
				}
				if shown, err := p.lister().Event(t.Context(), id.String()); err != nil || !shown.BodyArchived || shown.BodyKept {
					t.Errorf("%+v, %v", shown, err)
				}
			}
			if _, _, there := p.Has(t, young); !there {
				t.Error("a young body is gone")
			}
			day := time.Now().Add(-past).UTC().Format(time.DateOnly)
			for object, lines := range p.objects(t) {
				if !strings.HasPrefix(object, "bodies/default/"+day+"/") || !strings.HasSuffix(object, ".jsonl.zst") {
					t.Errorf("object %s", object)
				}
				if got := strings.Contains(lines, `{\"id\":\"evt_2\"}`); got != (keys == nil) {
					t.Errorf("the body of a %s line in plain: %v", name, got)
				}
				for line := range strings.Lines(lines) {
					var l struct {
						KeyID  *int32                    `json:"key_id"`
						Events []struct{ Source string } `json:"events"`
					}
					if err := json.Unmarshal([]byte(line), &l); err != nil || (l.KeyID != nil) != (keys != nil) || len(l.Events) == 0 || l.Events[0].Source != "stripe" {
						t.Errorf("%s: %+v, %v", line, l, err)
					}
				}
			}
			if headers, err := p.lister().Headers(t.Context(), eventOf(t, p, "evt_2")); err != nil || !slices.Equal(headers["X-Batch"], []string{"b"}) {
				t.Errorf("headers %v, %v", headers, err)
			}
		})
	}
}

func eventOf(t *testing.T, p *archived, key string) (id inbox.ID) {
	t.Helper()
	if err := p.Pool.QueryRow(t.Context(), `SELECT id FROM inbox_event WHERE event_id = $1`, key).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestArchiveFails: a body that the archive does not take, or whose row cannot be committed, is not removed, and the pass says so.
// The next pass that reaches the archive writes the same object.
func TestArchiveFails(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(f *faulty){
		"refused":                  func(f *faulty) { f.set(failOn("put"), nil) },
		"written and not verified": func(f *faulty) { f.set(nil, failOn("put")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newArchived(t, nil)
			id := p.Deliver(t, "evt_1", past, inbox.EffectDone)
			old := p.Deliver(t, "evt_old", 40*storetest.Day, inbox.EffectDone) // its event is due too
			fault(p.store)
			report := p.pass(t)
			if report.Complete || !strings.Contains(report.Archived.Error, errStore.Error()) {
				t.Errorf("%+v", report)
			}
			for _, id := range []inbox.ID{id, old} {
				if event, _, body := p.Has(t, id); !body || !event {
					t.Errorf("removed without the archive: event %v, body %v", !event, !body)
				}
			}
			runs, err := prune.Runs(t.Context(), p.Pool, inbox.ID{}, 1)
			if err != nil || len(runs) != 1 || !strings.Contains(runs[0].ArchiveError, errStore.Error()) {
				t.Errorf("%+v, %v", runs, err)
			}
			p.store.set(nil, nil)
			if report := p.prune(t); report.Archived.Bodies != 2 || report.Archived.Objects != 2 {
				t.Errorf("%+v", report)
			}
			if objects := p.objects(t); len(objects) != 2 {
				t.Errorf("%d objects: %v", len(objects), objects)
			}
			if n := p.Count(t, `SELECT count(*) FROM archive_object WHERE state <> 'stored'`); n > 0 {
				t.Errorf("%d rows of objects are left", n)
			}
			if body, err := p.lister().Body(t.Context(), id); err != nil || string(body) != `{"id":"evt_1","attempt":1}` {
				t.Errorf("%s, %v", body, err)
			}
			if !p.holds(t, `"event_id":"evt_old"`) {
				t.Error("the body of the event that is gone has no event in the archive")
			}
		})
	}
}

// TestPruneWithoutArchive: a process whose configuration lacks the archive removes no body once there is one.
func TestPruneWithoutArchive(t *testing.T) {
	t.Parallel()
	p := newArchived(t, nil)
	p.Deliver(t, "evt_1", past, inbox.EffectDone)
	p.prune(t)
	id := p.Deliver(t, "evt_2", past, inbox.EffectDone)
	report, err := p.Pruner(t).Run(t.Context(), prune.Run{Anew: true})
	if _, _, body := p.Has(t, id); err != nil || !body || report.Complete || !strings.Contains(report.Archived.Error, "archive.url") {
		t.Errorf("body %v, %+v, %v", body, report, err)
	}
	p.prune(t)
	if body, err := p.lister().Body(t.Context(), id); err != nil || string(body) != `{"id":"evt_2","attempt":1}` {
		t.Errorf("%s, %v", body, err)
	}
}

// TestEraseArchived: an erasure reaches the archive whichever request fails. It says that it is complete only when no object
// contains the event, and the other events keep their bytes.
func TestEraseArchived(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]*seal.Keyring{"plain": nil, "sealed": storetest.RingOf(t, storetest.FirstKey+" active")} {
		for _, fault := range []struct {
			name          string
			before, after func(string) error
		}{
			{name: "no fault"},
			{name: "not read", before: failOn("read")},
			{name: "not written", before: failOn("put")},
			{name: "written, and the row is not", after: failOn("put")},
			{name: "not deleted", before: failOn("delete")},
			{name: "deleted, and the row is not", after: failOn("delete")},
		} {
			for _, completed := range []string{"repeated", "pruned"} {
				t.Run(fmt.Sprintf("%s, %s, %s", name, fault.name, completed), func(t *testing.T) {
					t.Parallel()
					eraseArchived(t, keys, fault.before, fault.after, completed)
				})
			}
		}
	}
}

func eraseArchived(t *testing.T, keys *seal.Keyring, before, after func(string) error, completed string) {
	t.Helper()
	p := newArchived(t, keys)
	for _, item := range p.Accept(t, inboxtest.Batch(p.Source, "evt_1", "evt_2", "evt_3"), past).Items {
		p.Settle(t, item.ID, inbox.EffectDone, past)
	}
	p.Deliver(t, "evt_alone", past, inbox.EffectDone)
	other := p.Deliver(t, "evt_other", past, inbox.EffectDone)
	p.prune(t)
	for _, key := range []string{"evt_2", "evt_alone"} {
		p.store.set(before, after)
		out, err := p.erase(t, key)
		if failed := before != nil || after != nil; failed && !errors.Is(err, errStore) {
			t.Fatalf("%s is said to be erased: %+v, %v", key, out, err)
		} else if !failed && (err != nil || out.Archived != 1) {
			t.Fatalf("%s: %+v, %v", key, out, err)
		}
		if _, err := p.lister().Body(t.Context(), eventOf(t, p, key)); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("the erased event is read: %v", err)
		}
		p.store.set(nil, nil)
		if completed == "pruned" {
			p.prune(t)
		} else if _, err := p.erase(t, key); err != nil {
			t.Fatal(err)
		}
		if n := p.Count(t, `SELECT (SELECT count(*) FROM archive_erasure) + (SELECT count(*) FROM archive_object WHERE state <> 'stored')`); n > 0 {
			t.Errorf("%d rows are left", n)
		}
		if p.holds(t, `"`+key+`"`) || p.holds(t, `\"`+key+`\"`) {
			t.Errorf("%s is still in the archive", key)
		}
		if objects := p.objects(t); len(objects) != 1 {
			t.Errorf("%d objects: %v", len(objects), objects)
		}
	}
	for _, key := range []string{"evt_1", "evt_3"} {
		if body, err := p.lister().Body(t.Context(), eventOf(t, p, key)); err != nil || string(body) != `{"id":"`+key+`"}` {
			t.Errorf("%s: %s, %v", key, body, err)
		}
	}
	if body, err := p.lister().Body(t.Context(), other); err != nil || string(body) != `{"id":"evt_other","attempt":1}` {
		t.Errorf("%s, %v", body, err)
	}
	content, err := p.archive.Event(t.Context(), p.keys, eventOf(t, p, "evt_1"))
	if want := `[{"id":"evt_1"},` + strings.Repeat(" ", 14) + `,{"id":"evt_3"}]`; err != nil || string(content.Delivery) != want {
		t.Errorf("the delivery is %s, %v; want %s", content.Delivery, err, want)
	}
	for _, key := range []string{"evt_1", "evt_3", "evt_other"} {
		if _, err := p.erase(t, key); err != nil {
			t.Error(err)
		}
	}
	if objects := p.objects(t); len(objects) > 0 {
		t.Errorf("an object without a line: %v", objects)
	}
}

// TestEraseWhileArchiving: an event that is erased while its object is being written is not in the archive once the erasure is complete.
func TestEraseWhileArchiving(t *testing.T) {
	t.Parallel()
	p := newArchived(t, nil)
	p.Deliver(t, "evt_1", past, inbox.EffectDone)
	id := p.Deliver(t, "evt_2", past, inbox.EffectDone)
	writing, proceed := make(chan struct{}), make(chan struct{})
	p.store.set(func(op string) error {
		if op == "put" {
			p.store.set(nil, nil)
			close(writing)
			<-proceed
		}
		return nil
	}, nil)
	passed, erased := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := p.pruner(t).Run(t.Context(), prune.Run{Anew: true})
		passed <- err
	}()
	<-writing
	go func() {
		_, err := p.erase(t, "evt_1")
		erased <- err
	}()
	inboxtest.Until(t, "the erasure waits for the object", func() bool {
		return p.Count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM archive_object a WHERE a.name%'`) > 0
	})
	close(proceed)
	if err := <-passed; err != nil {
		t.Error(err)
	}
	if err := <-erased; err != nil {
		t.Error(err)
	}
	p.prune(t)
	if p.holds(t, "evt_1") || !p.holds(t, "evt_2") {
		t.Errorf("%v", p.objects(t))
	}
	if body, err := p.lister().Body(t.Context(), id); err != nil || string(body) != `{"id":"evt_2","attempt":1}` {
		t.Errorf("%s, %v", body, err)
	}
}

// TestArchiveKeptAndConflicts: a body that was needed beyond its day, and the payload of a conflict, are archived when they go, and an
// erasure of their event reaches both.
func TestArchiveKeptAndConflicts(t *testing.T) {
	t.Parallel()
	p := newArchived(t, nil)
	id := p.Deliver(t, "evt_1", past, inbox.EffectDead)
	other := inboxtest.Admission(p.Source, "evt_1")
	other.Body = []byte(`{"id":"evt_1","other":true}`)
	other.Events[0].Length = len(other.Body)
	p.Accept(t, other, past)
	if n := p.Count(t, `SELECT count(*) FROM conflict`); n != 1 {
		t.Fatalf("%d conflicts", n)
	}
	p.Exec(t, `UPDATE conflict SET last_seen_at = now() - interval '10 days'`)
	report := p.prune(t)
	if report.Kept != 1 || report.Archived.Bodies != 1 || report.Rows["conflict"] != 1 {
		t.Errorf("%+v", report)
	}
	if !p.holds(t, `"other\":true`) {
		t.Error("the payload of the conflict is not in the archive")
	}
	p.Settle(t, id, inbox.EffectDone, 0)
	if report := p.prune(t); report.Archived.Bodies != 1 || report.Rows["inbox_body"] != 1 {
		t.Errorf("%+v", report)
	}
	if body, err := p.lister().Body(t.Context(), id); err != nil || string(body) != `{"id":"evt_1","attempt":1}` {
		t.Errorf("%s, %v", body, err)
	}
	if out, err := p.erase(t, "evt_1"); err != nil || out.Archived != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	if objects := p.objects(t); len(objects) > 0 {
		t.Errorf("%v", objects)
	}
}

// TestArchiveDamaged: a body that is not the recorded one is never served, and neither is one of which the object is gone.
func TestArchiveDamaged(t *testing.T) {
	t.Parallel()
	p := newArchived(t, nil)
	id := p.Deliver(t, "evt_1", past, inbox.EffectDone)
	p.prune(t)
	p.Exec(t, `UPDATE inbox_event SET body_sha256 = sha256('x')`)
	if body, err := p.lister().Body(t.Context(), id); !errors.Is(err, archive.ErrMismatch) {
		t.Errorf("%s, %v", body, err)
	}
	p.Exec(t, `UPDATE archive_object SET index_offset = index_offset - 1`)
	if body, err := p.lister().Body(t.Context(), id); !errors.Is(err, archive.ErrDamaged) {
		t.Errorf("%s, %v", body, err)
	}
	unconfigured, err := archive.New(archive.Config{Pool: p.Pool})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unconfigured.Event(t.Context(), nil, id); !errors.Is(err, archive.ErrUnconfigured) {
		t.Errorf("without an archive in the configuration: %v", err)
	}
	if _, err := prune.EraseEvent(t.Context(), p.Pool, prune.Erase{Source: "stripe", EventID: "evt_1", Actor: "a", Reason: "r"}); !errors.Is(err, archive.ErrUnconfigured) {
		t.Errorf("an erasure without the archive: %v", err)
	}
}

// TestResealArchive: after a reseal, every line is under the active key, the other key is needed no more, and what an erasure could not
// blank is blanked.
func TestResealArchive(t *testing.T) {
	t.Parallel()
	p := newArchived(t, storetest.RingOf(t, storetest.FirstKey+" active"))
	for _, item := range p.Accept(t, inboxtest.Batch(p.Source, "evt_1", "evt_2"), past).Items {
		p.Settle(t, item.ID, inbox.EffectDone, past)
	}
	p.prune(t)
	first := p.keys
	p.keys = storetest.RingOf(t, storetest.SecondKey+" active")
	if out, err := p.erase(t, "evt_1"); err != nil || !out.Unopened {
		t.Errorf("%+v, %v", out, err)
	}
	p.keys = first
	if content, err := p.archive.Event(t.Context(), p.keys, eventOf(t, p, "evt_2")); err != nil || !strings.Contains(string(content.Delivery), "evt_1") {
		t.Errorf("%s, %v", content.Delivery, err)
	}
	p.keys = storetest.RingOf(t, storetest.FirstKey+"\n"+storetest.SecondKey+" active")
	end, err := prune.Reseal(t.Context(), prune.ResealConfig{Pool: p.Pool, Keyring: p.keys, Archive: p.archive})
	if err != nil || end.Unreadable != 0 {
		t.Errorf("%+v, %v", end, err)
	}
	usages, err := prune.KeyUsages(t.Context(), p.Pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range usages {
		if u.Table == "archive_object" && (u.Key != 2 || u.Values != 1) {
			t.Errorf("%+v", u)
		}
	}
	p.keys = storetest.RingOf(t, storetest.SecondKey+" active")
	content, err := p.archive.Event(t.Context(), p.keys, eventOf(t, p, "evt_2"))
	if err != nil || strings.Contains(string(content.Delivery), "evt_1") || string(content.Body) != `{"id":"evt_2"}` {
		t.Errorf("%s, %v", content.Delivery, err)
	}
}
