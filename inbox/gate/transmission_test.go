package gate_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/internal/session"
)

// An event that has a transmission is new only if its id and its transmission both are. The one that came first stays.
func TestTransmissions(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolGate, 6)
	g, err := gate.New(gate.Config{Pool: pool, Enqueuer: storetest.Queue(), Clock: inboxtest.Clock(t, pool)})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	shop, other := inboxtest.Source(t, pool, "shop"), inboxtest.Source(t, pool, "other")
	transmitted := func(source *inbox.Source, transmission, id string) *inbox.Admission {
		a := inboxtest.AdmissionOf(source, id, fmt.Sprintf(`{"id":%q}`, id))
		a.Events[0].Transmission = transmission
		return a
	}
	forged := transmitted(shop, "t1", "")
	forged.Events[0].Unusable = "body: it is no JSON"
	rows := map[string]inbox.ID{}
	for _, step := range []struct {
		what      string
		admission *inbox.Admission
		want      inbox.Outcome
		of        string
	}{
		{"an event", transmitted(shop, "t1", "a"), inbox.Recorded, "a"},
		{"a retry", transmitted(shop, "t1", "a"), inbox.Duplicate, "a"},
		{"a resend", transmitted(shop, "t2", "a"), inbox.Duplicate, "a"},
		{"another id under a known transmission", transmitted(shop, "t1", "b"), inbox.Conflict, "a"},
		{"an unusable event under it", forged, inbox.Conflict, "a"},
		{"another event", transmitted(shop, "t3", "c"), inbox.Recorded, "c"},
		{"a known id under the transmission of another event", transmitted(shop, "t3", "a"), inbox.Duplicate, "a"},
		{"the transmission at another source", transmitted(other, "t1", "a"), inbox.Recorded, "other"},
		{"an event without a transmission", inboxtest.Admission(shop, "d"), inbox.Recorded, "d"},
		{"and one more", inboxtest.Admission(shop, "e"), inbox.Recorded, "e"},
	} {
		receipt, err := g.Accept(t.Context(), step.admission)
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		got := receipt.Items[0]
		if step.want == inbox.Recorded {
			rows[step.of] = got.ID
		}
		if got.Outcome != step.want || got.ID != rows[step.of] {
			t.Errorf("%s: %s as %s, want %s as %s", step.what, got.Outcome, got.ID, step.want, rows[step.of])
		}
	}

	// The constraint decides between those that come at once, in one group or in several.
	const forgeries = 40
	outcomes := make(chan inbox.Outcome, forgeries)
	var all sync.WaitGroup
	for i := range forgeries {
		all.Go(func() {
			receipt, err := g.Accept(t.Context(), transmitted(shop, "t9", fmt.Sprint("forged-", i)))
			if err != nil {
				t.Error(err)
				return
			}
			outcomes <- receipt.Items[0].Outcome
		})
	}
	all.Wait()
	close(outcomes)
	counts := map[inbox.Outcome]int{}
	for outcome := range outcomes {
		counts[outcome]++
	}
	if counts[inbox.Recorded] != 1 || counts[inbox.Conflict] != forgeries-1 {
		t.Errorf("%v of one transmission, want one recorded and %d conflicts", counts, forgeries-1)
	}
	var events int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM inbox_event WHERE transmission = 't9'`).Scan(&events); err != nil || events != 1 {
		t.Errorf("%d events have one transmission (%v)", events, err)
	}
}
