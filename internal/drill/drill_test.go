package drill_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// TestDrillHolds runs a short drill with every fault against the released binary.
func TestDrillHolds(t *testing.T) { //nolint:paralleltest // it needs the machine for itself
	url, _ := inboxtest.EmptySchema(t)
	binary := filepath.Join(t.TempDir(), "oncegate")
	if err := lab.Build(t.Context(), "./cmd/oncegate", binary); err != nil {
		t.Fatal(err)
	}
	report, err := drill.Run(lab.TestContext(t), drill.Options{
		Database: url, Binary: binary, Length: 10 * time.Second, Seed: 1, Rate: 40, Nodes: 2, Faults: drill.Faults(), Log: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range invariant.Violations(report.Invariants) {
		t.Error(v)
	}
	t.Logf("%+v", report.Sent)
	for _, e := range report.Effects {
		t.Logf("%+v", e)
	}
	t.Log(report.Faults, report.Repeat)
	for i := range report.Invariants {
		if r := &report.Invariants[i]; r.Checked == 0 {
			t.Errorf("%s compared nothing", r.Name)
		}
	}
}
