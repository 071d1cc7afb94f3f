package control_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/control"
)

// withoutReason are operations that need no reason although they have no dry run, with what makes up for it.
var withoutReason = map[string]string{
	"plan_replay": "a plan changes nothing",
	"test_source": "it has a reason of its own",
	"test_target": "it has a reason of its own",
}

// A request that is always refused without a reason requires it in the description, and no other does.
func TestReasonsAreRequiredWhereTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	s, err := control.NewService(control.Config{Pool: inboxtest.Pool(t)})
	if err != nil {
		t.Fatal(err)
	}
	marked := 0
	for _, operation := range control.Operations() {
		d := operation.Describe()
		f, ok := d.Request.FieldByName("Explained")
		if !ok {
			continue
		}
		_, dry := d.Request.FieldByName("DryRun")
		required := f.Tag.Get("required") == "reason"
		if want := !dry && withoutReason[d.ID] == ""; required != want {
			t.Errorf("%s: the tag says that a reason is required: %t, want %t", d.ID, required, want)
		}
		if !required {
			continue
		}
		marked++
		if _, err := operation.Run(t.Context(), s, control.Everything("test"), func(any) error { return nil }); err == nil {
			t.Errorf("%s: accepted without a reason", d.ID)
		}
	}
	if marked < 10 {
		t.Errorf("only %d operations require a reason", marked)
	}
}
