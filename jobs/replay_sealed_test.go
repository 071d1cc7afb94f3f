package jobs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// With a keyring, what a target said and what a plan compares are sealed; they are
// read with the keys, and without them nothing else is wrong.
func TestReplaysOfWhatIsSealed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keyring = keyring(t, oldKey+" active")
	b.retry.Attempts = 1
	id := b.admit(repeatable, 1)[0]
	b.reseal(b.keyring)
	c := b.client(jobs.Config{Senders: map[string]effect.Sender{repeatable: newStubborn()}})
	b.eventuallyState(id, inbox.EffectDead)
	b.stop(c)

	lister := inboxtest.Lister(b.pool)
	for want, lister := range map[string]*read.Lister{"try later": lister.WithKeyring(b.keyring), "its key is not in the keyring)": lister} {
		rows, err := inboxtest.Rows(lister.Dead(t.Context(), read.DeadFilter{}, read.PageRequest{}))
		if err != nil || len(rows) != 1 || !strings.Contains(rows[0].Said, want) {
			t.Errorf("%+v, %v, want %q", rows, err, want)
		}
	}
	text := read.DeadFilter{Text: "later"}
	var judged []replay.RecordedEvent
	r := b.replays(replay.Config{Judge: judgeFunc(func(r *replay.RecordedEvent) []replay.Judgement {
		judged = append(judged, *r)
		return []replay.Judgement{{Effect: id, Verdict: replay.VerdictSame, Diff: json.RawMessage(`{"why":["secret"]}`)}}
	})})
	_, listed := inboxtest.Rows(lister.Dead(t.Context(), text, read.PageRequest{}))
	_, grouped := lister.DeadGroups(t.Context(), text)
	_, discarded := decide.New(b.store("node-1")).Discard(t.Context(), decide.Discard{Filter: text, DryRun: true})
	_, planned := r.Plan(t.Context(), replay.PlanRequest{Scope: replay.Scope{DeadFilter: text}, Actor: actor})
	for _, err := range []error{listed, grouped, discarded, planned} {
		if !errors.Is(err, read.ErrSealed) {
			t.Errorf("a search in what is sealed: %v", err)
		}
	}

	p := plan(t, r, everything(), replay.Options{})
	if len(judged) != 1 || string(judged[0].Event.Body) != `{"paid":1}` || string(judged[0].Effects[0].Rendered) != "attempt 1" || judged[0].Event.BodyGone {
		t.Errorf("judged %+v", judged)
	}
	var stored []byte
	if err := b.pool.QueryRow(t.Context(), `SELECT diff FROM replay_item WHERE diff_key_id = 1`).Scan(&stored); err != nil || bytes.Contains(stored, []byte("secret")) {
		t.Errorf("stored is %q, %v", stored, err)
	}
	if items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{})); err != nil || len(items) != 1 || string(items[0].Diff) != `{"why":["secret"]}` {
		t.Errorf("%+v, %v", items, err)
	}
	b.reseal(keyring(t, oldKey+"\n"+newKey+" active"))
	b.keyring = keyring(t, newKey+" active")
	if items, err := inboxtest.Rows(b.replays(replay.Config{}).Items(t.Context(), p.ID, replay.ItemFilter{})); err != nil || string(items[0].Diff) != `{"why":["secret"]}` {
		t.Errorf("under another key: %+v, %v", items, err)
	}
	b.keyring = nil
	if items, err := inboxtest.Rows(b.replays(replay.Config{}).Items(t.Context(), p.ID, replay.ItemFilter{})); err != nil || len(items) != 1 || items[0].Diff != nil || !strings.Contains(items[0].Detail, "key is not in the keyring") {
		t.Errorf("without the key: %+v, %v", items, err)
	}
}
