package jobs_test

import (
	"testing"

	"github.com/oncegate/oncegate/jobs"
)

// An attempt that is not traced allocates nothing for traces.
//
//nolint:paralleltest // nothing else may allocate meanwhile
func TestNoTracesCostNothing(t *testing.T) {
	if allocations := testing.AllocsPerRun(100, jobs.TraceNothing()); allocations != 0 {
		t.Errorf("%v allocations for an attempt that is not traced", allocations)
	}
}
