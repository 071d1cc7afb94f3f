package prune_test

import (
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
)

// What a pass removed is listed, newest first; a pass that found nothing is not.
func TestPassesAreListed(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	p.Deliver(t, "old", 400*storetest.Day, inbox.EffectDone)
	p.Exec(t, `INSERT INTO prune_run (id, ended_at, complete, removed, partitions, kept, left_behind, contended, include)
		SELECT id, now(), false, '{"effect": 5}', '{}', 0, 1, '{effects}', '{}' FROM unnest($1::uuid[]) id`,
		[]inbox.ID{inbox.NewID(time.Now().Add(-31 * storetest.Day)), inbox.NewID(time.Now().Add(-29 * storetest.Day))})
	pruner := p.Pruner(t)
	report, err := pruner.Run(t.Context(), prune.Run{Anew: true})
	if err != nil || report.Removed() == 0 || report.Rows["prune_run"] != 0 {
		t.Fatalf("%v, %+v", err, report)
	}
	for range 2 { // nothing is left for these
		if again, err := pruner.Run(t.Context(), prune.Run{Anew: true}); err != nil || again.Removed() != 0 {
			t.Fatalf("%v, %+v", err, again)
		}
	}
	runs, err := prune.Runs(t.Context(), p.Pool, inbox.ID{}, 10)
	if err != nil || len(runs) != 2 {
		t.Fatalf("%v, %+v", err, runs)
	}
	last, before := runs[0], runs[1]
	if !last.Complete || last.Rows["inbox_event"] != report.Rows["inbox_event"] || last.Actor != "" || len(last.Include) != 0 || last.EndedAt.Before(last.BeganAt) {
		t.Errorf("%+v, of %+v", last, report)
	}
	if before.Complete || before.Rows["effect"] != 5 || before.Left != 1 || !slices.Equal(before.Contended, []string{"effects"}) {
		t.Errorf("%+v", before)
	}
	page, err := prune.Runs(t.Context(), p.Pool, last.ID, 1)
	if err != nil || len(page) != 1 || page[0].ID != before.ID {
		t.Errorf("%v, %+v", err, page)
	}
}

// A pass that takes more than it does by itself says who asked for that.
func TestAPassByNameIsListed(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	p.Deliver(t, "dead", 400*storetest.Day, inbox.EffectDead)
	if _, err := p.Pruner(t).Run(t.Context(), prune.Run{Anew: true, Include: []prune.Prunable{prune.Dead}, Actor: "ann", Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	runs, err := prune.Runs(t.Context(), p.Pool, inbox.ID{}, 10)
	if err != nil || len(runs) != 1 || runs[0].Actor != "ann" || !slices.Equal(runs[0].Include, []string{"dead"}) || runs[0].Rows["effect"] != 1 {
		t.Errorf("%v, %+v", err, runs)
	}
}
