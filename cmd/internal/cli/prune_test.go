package cli_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/control"
)

// otherPrune answers as if another prune ran until a time.
type otherPrune struct {
	until time.Time
	asked int
}

func (o *otherPrune) Call(_ context.Context, _ control.Definition, _, response any) error {
	o.asked++
	over := !time.Now().Before(o.until)
	response.(*control.Pruned).Report = &prune.Report{Obtained: over, Complete: over, Rows: map[string]int64{}}
	return nil
}

// A prune that includes more than the worker's own prune does waits for that one. Any other leaves the work to it.
func TestPruneWaitsForAnotherOne(t *testing.T) {
	t.Parallel()
	include := []prune.Prunable{prune.Prunables()[0]}
	for name, c := range map[string]struct {
		include  []prune.Prunable
		runs     time.Duration // how long the other one runs
		obtained bool
		waited   time.Duration
	}{
		"it ends in time":       {include, 5 * time.Second, true, 5 * time.Second},
		"it does not":           {include, time.Hour, false, 10 * time.Second},
		"nothing else included": {nil, 5 * time.Second, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				o := &otherPrune{until: began.Add(c.runs)}
				report, err := cli.PruneAll(t.Context(), o, control.RunPruneRequest{Include: c.include}, 10*time.Second)
				if err != nil || report.Obtained != c.obtained || time.Since(began) != c.waited {
					t.Errorf("obtained %t after %s and %d calls, %v; want %t after %s", report.Obtained, time.Since(began), o.asked, err, c.obtained, c.waited)
				}
			})
		})
	}
}
