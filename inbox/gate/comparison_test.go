package gate_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// operations makes the bench's source one of operations that are compared as it says.
func operations(t *testing.T, b *storetest.Bench, byMeaning bool, volatile ...string) {
	t.Helper()
	cat := catalogtest.Load(t)
	p := cat["operation"]
	comparison := func(byMeaning bool, volatile ...string) *inbox.Comparison {
		c, err := p.Comparison(byMeaning, volatile)
		if err != nil {
			t.Fatal(err)
		}
		out := &inbox.Comparison{Canonical: c.Canonical, Differences: c.Differences}
		if byMeaning {
			out.Mark = inbox.MarkMeaning
		}
		return out
	}
	c := comparison(byMeaning, volatile...)
	c.Former = []*inbox.Comparison{comparison(false), comparison(true), comparison(!byMeaning, volatile...)}
	b.Source.Strict, b.Source.Canonical, b.Source.Differences = true, p.Canonical, p.Differences
	b.Source.Comparisons = map[string]*inbox.Comparison{"test": c}
}

func call(b *storetest.Bench, body string) *inbox.Admission {
	a := inboxtest.AdmissionOf(b.Source, "agent:test:k", body)
	a.Events[0].Type = "test"
	return a
}

func accept(t *testing.T, b *storetest.Bench, a *inbox.Admission) inbox.ItemReceipt {
	t.Helper()
	receipt, err := b.Gate.Accept(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return receipt.Items[0]
}

const firstCall = `{"amount": 100, "to": "Ann", "note": "x", "items": [{"n": 1, "at": "a"}]}`

func TestOperationsAreComparedByMeaning(t *testing.T) {
	t.Parallel()
	b := storetest.NewBench(t, nil)
	operations(t, b, true, "note", "items.*.at")
	b.Start(t)
	first := accept(t, b, call(b, firstCall))
	if first.Outcome != inbox.Recorded || len(first.Intent) != 32 {
		t.Fatalf("%+v", first)
	}
	for _, same := range []string{
		firstCall, `{"to":" Ann ","amount":1e2,"items":[{"at":"b","n":1.0}]}`, `{"amount":100.00,"to":"Ann","note":{"y":1},"items":[{"n":1}]}`,
	} {
		if got := accept(t, b, call(b, same)); got.Outcome != inbox.Duplicate || got.ID != first.ID || !bytes.Equal(got.Intent, first.Intent) {
			t.Errorf("%s is %+v", same, got)
		}
	}
	other := accept(t, b, call(b, `{"amount":100.01,"to":"Anne","note":"x","items":[{"n":1,"at":"a"},{"n":2}]}`))
	if other.Outcome != inbox.Conflict || strings.Join(other.Paths, " ") != "amount items.1 to" || bytes.Equal(other.Intent, first.Intent) {
		t.Errorf("%+v", other)
	}
	if string(other.Original) != `{"amount":100,"items":[{"n":1}],"to":"Ann"}` || other.OriginalGone != "" {
		t.Errorf("the payload that won is %s (%s)", other.Original, other.OriginalGone)
	}
}

// A repeat that was one before the operation was declared in another way stays one, also when
// the first body is gone and only its hash is left.
func TestARepeatSurvivesAnotherComparison(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after []string // nil is exact; the rest is volatile
		exactBefore   bool
		exactAfter    bool
	}{
		"from undeclared to canonical":      {exactBefore: true},
		"from canonical to exact":           {exactAfter: true},
		"with a volatile member since":      {exactBefore: true, exactAfter: true, after: []string{"note"}},
		"canonical, and a volatile member":  {exactBefore: true, after: []string{"note"}},
		"canonical to exact with the other": {before: []string{"note"}, after: []string{"note"}, exactAfter: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := storetest.NewBench(t, nil)
			operations(t, b, !c.exactBefore, c.before...)
			if c.exactBefore {
				b.Source.Comparisons = nil
			}
			b.Start(t)
			accept(t, b, call(b, firstCall))
			operations(t, b, !c.exactAfter, c.after...)
			if _, err := b.Pool.Exec(t.Context(), `DELETE FROM inbox_body`); err != nil {
				t.Fatal(err)
			}
			respelt := strings.ReplaceAll(firstCall, " ", "  ")
			if got := accept(t, b, call(b, respelt)); got.Outcome != inbox.Duplicate {
				t.Errorf("%+v", got)
			}
			other := strings.Replace(firstCall, "100", "101", 1)
			if got := accept(t, b, call(b, other)); got.Outcome != inbox.Conflict || got.OriginalGone != inbox.OriginalPruned || got.Original != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

// What is compared as it is written stays so: the form by meaning of one payload may be the
// written form of another.
func TestExactIsExact(t *testing.T) {
	t.Parallel()
	b := storetest.NewBench(t, nil)
	operations(t, b, false)
	b.Start(t)
	accept(t, b, call(b, `{"a":100}`))
	if got := accept(t, b, call(b, `{"a":100.00}`)); got.Outcome != inbox.Conflict || string(got.Original) != `{"a":100}` {
		t.Errorf("%+v", got)
	}
}

func TestThePayloadThatWonIsToldOnlyWhereItCanBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first string
		gone  inbox.OriginalGone
		lost  bool
	}{
		"not JSON":  {first: `amount=100`, gone: inbox.OriginalNotJSON},
		"too large": {first: `{"a":"` + strings.Repeat("x", inbox.MaxOriginal) + `"}`, gone: inbox.OriginalTooLarge},
		"sealed":    {first: `{"a":1}`, gone: inbox.OriginalSealed, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := storetest.NewBench(t, nil)
			operations(t, b, true)
			b.Start(t)
			accept(t, b, call(b, c.first))
			if c.lost { // with a key that nobody has
				if _, err := b.Pool.Exec(t.Context(), `UPDATE inbox_body SET key_id = 7`); err != nil {
					t.Fatal(err)
				}
			}
			if got := accept(t, b, call(b, `{"other":1}`)); got.Outcome != inbox.Conflict || got.Original != nil || got.OriginalGone != c.gone {
				t.Errorf("%+v, want %s", got, c.gone)
			}
		})
	}
}

// What the source hides of a payload is hidden from the caller too, who is told the rest.
func TestThePayloadThatWonIsToldWithoutWhatIsHidden(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shown func([]byte) ([]byte, bool)
		want  string
		gone  inbox.OriginalGone
	}{
		"all":     {want: `{"a":1,"card":"4111"}`},
		"masked":  {shown: func(b []byte) ([]byte, bool) { return bytes.ReplaceAll(b, []byte("4111"), []byte("***")), true }, want: `{"a":1,"card":"***"}`},
		"nothing": {shown: func([]byte) ([]byte, bool) { return nil, false }, gone: inbox.OriginalNotJSON},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := storetest.NewBench(t, nil)
			operations(t, b, true)
			b.Source.Shown = c.shown
			b.Start(t)
			accept(t, b, call(b, `{"a":1,"card":"4111"}`))
			if got := accept(t, b, call(b, `{"a":2,"card":"4111"}`)); got.Outcome != inbox.Conflict || string(got.Original) != c.want || got.OriginalGone != c.gone {
				t.Errorf("%+v, told %s, want %s", got, got.Original, c.want)
			}
		})
	}
}

// A provider's sender is told nothing of what was recorded.
func TestAProvidersConflictTellsNothing(t *testing.T) {
	t.Parallel()
	b := storetest.NewBench(t, nil)
	operations(t, b, true)
	b.Source.Strict = false
	b.Start(t)
	accept(t, b, call(b, `{"a":1}`))
	if got := accept(t, b, call(b, `{"a":2}`)); got.Outcome != inbox.Conflict || got.Original != nil || got.Intent != nil {
		t.Errorf("%+v", got)
	}
}
