package jobs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// What became of a list is summed up for people and callers, however long it is, and its
// failed items can be listed page by page.
func TestAListIsSummedUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n, failed = 1300, 43
	to := make([]string, n)
	for i := range to {
		to[i] = fmt.Sprintf("r%d@x.example", i+1)
	}
	p := &post{answer: func(to string) effect.Result {
		var number int
		if _, err := fmt.Sscanf(to, "r%d@", &number); err == nil && number%30 == 0 {
			return effect.Result{Outcome: effect.Dead, Reason: reasons.Mail5xx, Code: "550"}
		}
		return effect.Result{Outcome: effect.Done}
	}}
	id := b.batch("may", to...)
	lister := inboxtest.Lister(b.pool)
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: b.campaigns(false)})
	b.nothingUnderWay()

	head, err := lister.Effect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	states := map[inbox.EffectState]int{inbox.EffectDone: n - failed, inbox.EffectDead: failed}
	if l := head.List; l == nil || l.Total != n || l.Written != n || !maps.Equal(l.States, states) {
		t.Errorf("the list is %+v, want %d of %d: %v", l, n, n, states)
	}
	event, err := lister.Event(t.Context(), id.String())
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("dead %d", failed); !strings.Contains(event.EffectStates.String(), want) || !strings.Contains(event.EffectStates.String(), fmt.Sprintf("done %d", n-failed+1)) ||
		len(event.Effects) != 101 || event.EffectsOmitted != n-100 {
		t.Errorf("the event has %q, shows %d effects and omits %d", event.EffectStates, len(event.Effects), event.EffectsOmitted)
	}

	var items []int
	for cursor := ""; ; {
		page, err := lister.Items(t.Context(), id, read.EffectFilter{State: "dead", Cursor: cursor, Limit: 10})
		if err != nil || page.SearchedTo != nil {
			t.Fatalf("searched to %v, %v", page.SearchedTo, err)
		}
		for _, row := range page.Data {
			items = append(items, row.Item)
			if row.State != "dead" || row.Code != "550" {
				t.Errorf("%+v is listed as dead", row)
			}
		}
		if cursor = page.Next; !page.HasMore {
			break
		}
	}
	for i, item := range items {
		if item != 30*(i+1) {
			t.Errorf("item %d of the dead ones is %d, want %d", i, item, 30*(i+1))
		}
	}
	if len(items) != failed {
		t.Errorf("%d dead items are listed, want %d", len(items), failed)
	}
	if _, err := inboxtest.Rows(lister.Items(t.Context(), b.itemID(1), read.EffectFilter{})); !errors.Is(err, read.ErrNoList) {
		t.Errorf("the list of an item: %v", err)
	}
	if _, err := lister.Items(t.Context(), inbox.NewID(time.Now()), read.EffectFilter{}); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("the list of nothing: %v", err)
	}

	operations, err := operation.New(operation.Config{Pool: b.pool})
	if err != nil {
		t.Fatal(err)
	}
	document, ok, err := operations.Result(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("no result: %v", err)
	}
	var result struct {
		Status  string
		Omitted int
		Effects []struct {
			State string
			Item  int
			List  *operation.ListOutcome
		}
	}
	if err := json.Unmarshal(document, &result); err != nil {
		t.Fatal(err)
	}
	if result.Status != "partial" || len(result.Effects) != 101 || result.Omitted != n-100 || len(document) > 32<<10 {
		t.Errorf("%d bytes: %s with %d effects and %d omitted", len(document), result.Status, len(result.Effects), result.Omitted)
	}
	for i, e := range result.Effects {
		if e.Item != i { // the first one became the list
			t.Fatalf("effect %d is item %d", i, e.Item)
		}
	}
	list := result.Effects[0].List
	if list == nil || list.Effect != id || list.Items != n || !maps.Equal(list.States, states) || len(list.Failures) != 20 || list.FailuresOmitted != failed-20 ||
		list.Failures[1].Item != 60 || list.Failures[1].Code != "550" || list.Failures[1].Reason != reasons.Mail5xx {
		t.Errorf("the list is %+v", list)
	}
}

func (b *bundle) itemID(item int) (id inbox.ID) {
	b.tb.Helper()
	if err := b.pool.QueryRow(b.tb.Context(), `SELECT id FROM effect WHERE item = $1`, item).Scan(&id); err != nil {
		b.tb.Fatal(err)
	}
	return id
}

// A list that is being written says how far it is.
func TestAListSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	to := []string{"a@x.example", "b@x.example", "c@x.example"}
	id := b.batch("may", to...)
	store := b.store("node-1")
	lister := inboxtest.Lister(b.pool)
	claim := b.claim(store, id)
	if head, err := lister.Effect(t.Context(), id); err != nil || head.List != nil {
		t.Errorf("before the list is known: %+v, %v", head.List, err)
	}
	if mine, err := store.StartSend(t.Context(), claim, inbox.SendStart{Rendered: []byte(`["a@x.example","b@x.example","c@x.example"]`)}); !mine || err != nil {
		t.Fatal(mine, err)
	}
	if _, err := store.WriteItems(t.Context(), claim, itemsOf(claim, to[:2])); err != nil {
		t.Fatal(err)
	}
	head, err := lister.Effect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if l := head.List; l == nil || l.Total != 3 || l.Written != 2 || l.States[inbox.EffectPending] != 2 {
		t.Errorf("the list is %+v, want 2 of 3 written", l)
	}
}
