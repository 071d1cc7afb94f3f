package attention_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
)

// failing are effects that wait for another attempt: two of target a, the second for long; one of b, for a moment; one of c that an
// operator has paused, and one that was never attempted.
const failing = `
SELECT new_effect(new_event(1, '3 minutes'), 1, 'pending', '3 minutes'), new_effect(new_event(1, '50 minutes'), 1, 'pending', '50 minutes'),
    new_effect(new_event(2, '20 seconds'), 2, 'pending', '20 seconds');
UPDATE effect SET state = 'retry', reason = 'status_5xx', last_code = '500', attempts = 2, next_at = now() + interval '1 hour';
SELECT new_effect(new_event(2, '2 hours'), 3, 'pending', '2 hours', 'paused');
UPDATE effect SET state = 'retry', attempts = 1, last_code = '503' WHERE reason = 'paused';
SELECT new_effect(new_event(2, '2 hours'), 2, 'pending', '2 hours', NULL);`

// A target fails if an effect has waited for another attempt for more than a minute. What is paused, or waits for its first attempt,
// makes no target fail.
func TestFailing(t *testing.T) {
	t.Parallel()
	_, r := setup(t, sources, failing)
	for tenant, want := range map[string]int{"": 1, "acme": 1, "another": 0} {
		all, err := r.Read(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(all.Data, func(i attention.Item) bool { return i.Kind == attention.Failing })
		if want == 0 {
			if at >= 0 {
				t.Errorf("tenant %q sees %+v", tenant, all.Data[at])
			}
			continue
		}
		if at < 0 || all.Data[at].Count != 1 || len(all.Data[at].Failures) != 1 {
			t.Fatalf("tenant %q sees %+v, want target a alone", tenant, all.Data)
		}
		f := all.Data[at].Failures[0]
		if f.Target != "a" || f.Effects != 2 || f.Answer() != "last answer 500" || !f.Oldest.Equal(*all.Data[at].Oldest) {
			t.Errorf("tenant %q sees %+v", tenant, f)
		}
	}
}

// While a breaker is open, the effects that it puts off count, and the answer is that of the last attempt.
func TestFailingBehindABreaker(t *testing.T) {
	t.Parallel()
	const open = `
SELECT new_effect(new_event(1, '50 minutes'), 1, 'pending', '50 minutes', NULL), new_effect(new_event(1, '3 minutes'), 1, 'pending', '3 minutes', 'target_open'), new_effect(new_event(1, '3 minutes'), 1, 'pending', '3 minutes', 'target_rate');
UPDATE effect SET state = 'retry', reason = 'target_open', attempts = 1, next_at = now() + interval '1 hour' WHERE reason IS NULL;
INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, reason)
SELECT id, 1, version, 'initial', 'n', now(), now(), 'retry', 'timeout' FROM effect WHERE state = 'retry';`
	for sql, want := range map[string]string{
		open: "target a fails: 2 effects wait since %s, no answer: timeout",
		open + `UPDATE effect SET last_code = '503' WHERE state = 'retry'`: "target a fails: 2 effects wait since %s, last answer 503",
		open + `DELETE FROM effect_attempt`:                                "target a fails: 2 effects wait since %s, no answer",
	} {
		_, r := setup(t, sources, sql)
		all, err := r.Read(t.Context(), "")
		if err != nil || len(all.Data) != 1 || len(all.Data[0].Failures) != 1 {
			t.Fatalf("%+v, %v, want one target", all, err)
		}
		f := all.Data[0].Failures[0]
		if want = fmt.Sprintf(want, attention.Clock(f.Oldest)); f.Sentence() != want {
			t.Errorf("%q, want %q", f.Sentence(), want)
		}
	}
}

// If the time ends before the effects that wait for another attempt are found behind a backlog, the answer says that there may be more. It
// would otherwise mean that no target fails.
func TestFailingBehindABacklog(t *testing.T) {
	t.Parallel()
	pool, _ := setup(t, sources, failing, `
		SELECT new_effect(new_event(2, '2 hours'), 2, 'pending', '2 hours', NULL) FROM generate_series(1, 10050);
		UPDATE effect SET next_at = now() - interval '1 hour' WHERE state = 'pending' AND reason IS NULL`)
	for budget, want := range map[time.Duration]int64{time.Minute: 1, time.Nanosecond: 0} {
		r, err := attention.New(attention.Config{Pool: pool, Budget: budget})
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.Read(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(all.Data, func(i attention.Item) bool { return i.Kind == attention.Failing })
		if at < 0 || all.Data[at].Count != want || all.Data[at].More != (want == 0) {
			t.Errorf("within %s the reader finds %+v, want %d targets, and more: %t", budget, all.Data, want, want == 0)
		}
	}
}
