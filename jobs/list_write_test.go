package jobs_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A run that ends in the middle is gone on with where it ended, with the list as it was,
// however the route reads by then.
func TestAListGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := 1200
	to := make([]string, n)
	for i := range to {
		to[i] = fmt.Sprintf("r%d@example.com", i+1)
	}
	id := b.batch("may", to...)
	store := b.store("node-1")
	claim := b.claim(store, id)
	list, err := json.Marshal(to)
	if err != nil {
		t.Fatal(err)
	}
	if mine, err := store.StartSend(t.Context(), claim, inbox.SendStart{Rendered: list}); !mine || err != nil {
		t.Fatal(mine, err)
	}
	written, err := store.WriteItems(t.Context(), claim, itemsOf(claim, to[:inbox.MaxItemsWritten]))
	if err != nil || !written.Held {
		t.Fatal(written, err)
	}
	if last, err := store.LastItem(t.Context(), claim); err != nil || last != inbox.MaxItemsWritten {
		t.Fatalf("the list is written up to %d, want %d: %v", last, inbox.MaxItemsWritten, err)
	}
	b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s' WHERE item = 0`)
	b.sweep(b.sweeper(nil))
	p := &post{}
	var mu sync.Mutex
	var rendered []string
	routes := b.listed("['another@example.com', 'list@example.com']", func(_ *effect.Call, item string) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		rendered = append(rendered, item)
		return []byte("to " + item + " as today"), nil
	})
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: routes})
	b.within(2*time.Minute, "all done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == n+1 })
	got := p.counts()
	if len(got) != n {
		t.Errorf("%d recipients were mailed, want %d", len(got), n)
	}
	for to, times := range got {
		if times != 1 {
			t.Errorf("%s was mailed %d times", to, times)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(rendered) != n-inbox.MaxItemsWritten || slices.Contains(rendered, to[0]) {
		t.Errorf("%d were rendered in the second run, want the %d that were not written", len(rendered), n-inbox.MaxItemsWritten)
	}
}

func itemsOf(claim *inbox.Claim, to []string) []inbox.ListItem {
	items := make([]inbox.ListItem, len(to))
	for i, recipient := range to {
		items[i] = inbox.ListItem{Position: i + 1, Key: inbox.ItemKey(claim, recipient), Rendered: []byte("to " + recipient + " as before")}
	}
	return items
}

// The body of a list is decoded once for all of its items: otherwise the time that a list
// takes grows with the square of its length.
func TestTheItemsOfAListShareItsBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.batch("may", "a@x.example", "b@x.example", "c@x.example")
	var mu sync.Mutex
	decoded := map[uintptr]int{}
	p := &post{}
	routes := b.listed("body.to", func(call *effect.Call, item string) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		decoded[reflect.ValueOf(call.Payload()).Pointer()]++
		return []byte("to " + item + " as it is"), nil
	})
	b.client(jobs.Config{Senders: senders(p.sink()), Routes: routes})
	b.nothingUnderWay()
	mu.Lock()
	defer mu.Unlock()
	if len(decoded) != 1 {
		t.Errorf("the body was decoded %d times", len(decoded))
	}
}

// Two runs that write one list at the same time write each item once.
func TestTwoRunsWriteAListOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	to := []string{"a@x.example", "b@x.example", "c@x.example"}
	id := b.batch("may", to...)
	store := b.store("node-1")
	claim := b.claim(store, id)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			written, err := store.WriteItems(t.Context(), claim, itemsOf(claim, to))
			if err != nil || !written.Held {
				t.Errorf("%+v: %v", written, err)
			}
		})
	}
	group.Wait()
	if n := b.count(`SELECT count(*) FROM effect WHERE item > 0`); n != len(to) {
		t.Errorf("%d items, want %d", n, len(to))
	}
	b.exec(`UPDATE effect SET lease_token = gen_random_uuid() WHERE id = $1`, id)
	if written, err := store.WriteItems(t.Context(), claim, itemsOf(claim, to)); err != nil || written.Held {
		t.Errorf("who lost the claim writes on: %+v: %v", written, err)
	}
}
