package gate_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// call is the call of an operation under a key. Two calls with one intent say the same.
func (b *bundle) call(key, intent string, recent *inbox.RecentCall, follows *inbox.Follow) *inbox.Admission {
	a := inboxtest.Admission(b.Source, key)
	e := &a.Events[0]
	if recent != nil {
		r := *recent
		r.Hash = sha256.Sum256([]byte(intent))
		e.Recent = &r
	}
	if follows != nil {
		f := *follows
		f.Intent = sha256.Sum256([]byte(intent))
		e.Follows = &f
	}
	return a
}

// atOnce has the gate take the admissions at the same moment: those that wait while a group is committed are the next one.
func (b *bundle) atOnce(t *testing.T, admissions ...*inbox.Admission) []storetest.Answer {
	t.Helper()
	answers := make([]storetest.Answer, len(admissions))
	var all sync.WaitGroup
	for i, a := range admissions {
		all.Go(func() { answers[i].Receipt, answers[i].Err = b.Gate.Accept(t.Context(), a) })
	}
	all.Wait()
	return answers
}

// settled records a call whose effect is in the state, and the result that says so.
func (b *bundle) settled(t *testing.T, key, state, status string) *inbox.Follow {
	t.Helper()
	receipt, err := b.Gate.Accept(t.Context(), b.call(key, key, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	id := receipt.Items[0].ID
	storetest.Exec(t, b.Pool, `UPDATE effect SET state = $2, next_at = CASE WHEN $2 = 'retry' THEN now() END, finished_at = CASE WHEN $2 = 'done' THEN now() END,
		reason = CASE WHEN $2 NOT IN ('done', 'retry') THEN 'timeout' END WHERE event_id = $1`, id, state)
	if status != "" {
		storetest.Exec(t, b.Pool, `INSERT INTO operation_result (event_id, status, document, rendered_at) VALUES ($1, $2, '{}', now())`, id, status)
	}
	return &inbox.Follow{Kind: inbox.FollowResumes, Parent: id, ParentKey: key}
}

// outcomes counts how calls ended.
func outcomesOf(t *testing.T, answers []storetest.Answer) (recorded, suspected, notFollowed, marked int) {
	t.Helper()
	for i, a := range answers {
		switch {
		case errors.Is(a.Err, inbox.ErrSuspectedRepeat):
			suspected++
		case errors.Is(a.Err, inbox.ErrNotFollowed):
			notFollowed++
		case a.Err != nil:
			t.Errorf("delivery %d: %v", i, a.Err)
		default:
			recorded++
			if !a.Receipt.Items[0].Repeats.IsZero() {
				marked++
			}
		}
	}
	return recorded, suspected, notFollowed, marked
}

// Of the same calls under other keys that come at once, one is recorded, or one is unmarked. What comes with them, in the same
// groups, is recorded.
func TestOneOfTheSameCallsIsTheFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Start(t)
	for name, c := range map[string]struct {
		refuse                      bool
		recorded, suspected, marked int
	}{"refuse": {true, 1, 19, 0}, "flag": {false, 20, 0, 19}} {
		var all []*inbox.Admission
		for i := range 20 {
			all = append(all, b.call(fmt.Sprint(name, i), name, &inbox.RecentCall{Within: time.Hour, Refuse: c.refuse}, nil),
				inboxtest.Admission(b.Source, fmt.Sprint("other-", name, i)))
		}
		recorded, suspected, _, marked := outcomesOf(t, b.atOnce(t, all...))
		if recorded != c.recorded+20 || suspected != c.suspected || marked != c.marked {
			t.Errorf("%s: %d recorded, %d suspected, %d marked", name, recorded, suspected, marked)
		}
		var rows, events int
		b.Scan(t, `SELECT (SELECT count(*) FROM recent_call), (SELECT count(*) FROM inbox_event WHERE suspected_replay)`, &rows, &events)
		if rows != 1 || events != c.marked {
			t.Errorf("%s: %d notes, %d events are marked", name, rows, events)
		}
		storetest.Exec(t, b.Pool, `DELETE FROM recent_call`)
		storetest.Exec(t, b.Pool, `UPDATE inbox_event SET suspected_replay = false`)
	}
}

// A note lives and ends with the call that it is about: a call that was not recorded leaves none, a conflict does not move
// it, and who follows the call takes it over.
func TestANoteIsOfARecordedCall(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	refuse := &inbox.RecentCall{Within: time.Hour, Refuse: true}
	accept := func(key, intent string, follows *inbox.Follow) error {
		t.Helper()
		_, err := b.Gate.Accept(t.Context(), b.call(key, intent, refuse, follows))
		return err
	}
	b.Start(t)
	// The transaction fails after the note is written, and the call is answered 503.
	storetest.Exec(t, b.Pool, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$`)
	storetest.Exec(t, b.Pool, `CREATE TRIGGER full_disk BEFORE INSERT ON effect EXECUTE FUNCTION full_disk()`)
	if err := accept("lost", "a", nil); !errors.Is(err, gate.ErrUnavailable) {
		t.Fatalf("the call was answered with %v", err)
	}
	storetest.Exec(t, b.Pool, `DROP TRIGGER full_disk ON effect`)
	if err := accept("one", "a", nil); err != nil {
		t.Errorf("after a call that was not recorded: %v", err)
	}
	// The key again, with other arguments: a duplicate or a conflict, and no note of them.
	if err := accept("one", "b", nil); err != nil {
		t.Error(err)
	}
	if err := accept("two", "b", nil); err != nil {
		t.Errorf("after the same arguments were refused under a used key: %v", err)
	}
	if err := accept("three", "a", nil); !errors.Is(err, inbox.ErrSuspectedRepeat) {
		t.Errorf("another key: %v", err)
	}
	// Who follows the call that has the note takes it over; who follows another call does not.
	first := b.settled(t, "first", "dead", "failed")
	storetest.Exec(t, b.Pool, `INSERT INTO recent_call SELECT source_id, sha256('c'), 'first', now() + interval '1 hour' FROM inbox_event LIMIT 1`)
	if err := accept("stray", "c", b.settled(t, "elsewhere", "dead", "failed")); !errors.Is(err, inbox.ErrSuspectedRepeat) {
		t.Errorf("following another call: %v", err)
	}
	if err := accept("second", "c", first); err != nil {
		t.Errorf("following it: %v", err)
	}
	if err := accept("fourth", "c", nil); !errors.Is(err, inbox.ErrSuspectedRepeat) {
		t.Errorf("after it was followed: %v", err)
	}
	storetest.Exec(t, b.Pool, `UPDATE recent_call SET expires_at = now() - interval '1 second'`)
	if err := accept("fifth", "c", nil); err != nil {
		t.Errorf("after the window: %v", err)
	}
	var rows int
	if b.Scan(t, `SELECT count(*) FROM recent_call`, &rows); rows != 1 {
		t.Errorf("%d notes: those that have expired are removed by later calls", rows)
	}
}

// One call resumes a call, and one for each intent takes its place, however many come at once; not both. The parent must
// have a settled result, and something that says what it did.
func TestOneCallFollows(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Start(t)
	many := func(parent *inbox.Follow, kind inbox.FollowKind, name string, intents int) []*inbox.Admission {
		var out []*inbox.Admission
		for i := range 12 {
			f := *parent
			f.Kind = kind
			out = append(out, b.call(fmt.Sprint(name, i), fmt.Sprint("intent", i%intents), nil, &f), inboxtest.Admission(b.Source, fmt.Sprint("beside-", name, i)))
		}
		return out
	}
	const resumes, insteadOf = inbox.FollowResumes, inbox.FollowInsteadOf
	for name, c := range map[string]struct {
		state, status string
		change        string
		kind          inbox.FollowKind
		intents       int
		followers     int
	}{
		"resumed":                   {state: "dead", status: "failed", kind: resumes, intents: 1, followers: 1},
		"replaced":                  {state: "dead", status: "failed", kind: insteadOf, intents: 1, followers: 1},
		"replaced by three":         {state: "done", status: "done", kind: insteadOf, intents: 3, followers: 3},
		"in flight":                 {state: "retry", kind: resumes, intents: 1},
		"in flight, to be replaced": {state: "held", kind: insteadOf, intents: 1},
		"nobody knows":              {state: "indeterminate", status: "indeterminate", kind: resumes, intents: 1},
		"nobody knows, replaced":    {state: "indeterminate", status: "indeterminate", kind: insteadOf, intents: 1},
		"pruned":                    {state: "done", status: "partial", kind: resumes, intents: 1, change: `DELETE FROM effect WHERE event_id = $1`},
		"pruned, replaced":          {state: "done", status: "partial", kind: insteadOf, intents: 1, followers: 1, change: `DELETE FROM effect WHERE event_id = $1`},
		"resumed before":            {state: "dead", status: "failed", kind: insteadOf, intents: 1, change: `INSERT INTO operation_follow VALUES (gen_random_uuid(), $1, 'resumes', sha256('x'), 'failed')`},
		"replaced before":           {state: "dead", status: "failed", kind: resumes, intents: 1, change: `INSERT INTO operation_follow VALUES (gen_random_uuid(), $1, 'instead_of', sha256('x'), 'failed')`},
	} {
		parent := b.settled(t, "parent of "+name, c.state, c.status)
		if c.change != "" {
			storetest.Exec(t, b.Pool, c.change, parent.Parent)
		}
		recorded, _, refused, _ := outcomesOf(t, b.atOnce(t, many(parent, c.kind, name, c.intents)...))
		if recorded != 12+c.followers || refused != 12-c.followers {
			t.Errorf("%s: %d followed, %d did not", name, recorded-12, refused)
		}
		var followers int
		if b.Scan(t, `SELECT count(*) FROM inbox_event v JOIN operation_follow f ON f.child = v.id AND f.parent = v.parent WHERE v.parent = '`+parent.Parent.String()+`'`, &followers); followers != c.followers {
			t.Errorf("%s: %d followers have both rows", name, followers)
		}
	}
	// Of two kinds that come at once, one wins.
	parent := b.settled(t, "both", "dead", "failed")
	recorded, _, _, _ := outcomesOf(t, b.atOnce(t, append(many(parent, resumes, "either", 1), many(parent, insteadOf, "or", 1)...)...))
	if recorded != 24+1 {
		t.Errorf("%d calls followed in two ways", recorded-24)
	}
}

// Other calls wait only briefly for a parent that another session keeps locked, and the call that follows it is not recorded.
func TestALockedParentHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Start(t)
	parent := b.settled(t, "parent", "dead", "failed")
	_, letGo := b.stranger(t, `SELECT FROM inbox_event WHERE id = $1 FOR NO KEY UPDATE`, parent.Parent)
	answers := b.atOnce(t, append(deliveries(b.Source, "other", 10), b.call("child", "i", nil, parent))...)
	for i, a := range answers {
		if (a.Err == nil) != (i < 10) {
			t.Errorf("delivery %d: %v", i, a.Err)
		}
	}
	letGo()
	if _, err := b.Gate.Accept(t.Context(), b.call("child", "i", nil, parent)); err != nil {
		t.Error(err)
	}
}
