package receiver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// fault is a mistake that is planted: each of those that this design removed.
type fault string

const (
	unsettledInsist fault = "a call takes the place of one that is not settled"
	partialRepeated fault = "a call that goes on after partial does all of it"
	otherPayload    fault = "a call resumes with another payload"
	resumedTwice    fault = "two calls resume one"
	prunedIsNone    fault = "a pruned effect counts as one that did not happen"
	noNote          fault = "no note says that a call was made"
)

// faultyGate plants what the gate would not let through.
type faultyGate struct {
	receiver.Accepter
	fault *fault
}

func (g faultyGate) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	e := &a.Events[0]
	switch f := e.Follows; {
	case *g.fault == noNote:
		e.Recent = nil
	case f == nil:
	case *g.fault == resumedTwice && f.Kind == inbox.FollowResumes:
		f.Intent = [32]byte([]byte(fmt.Sprintf("%-32.32s", e.EventID)))
		e.Recent = nil
	case *g.fault == unsettledInsist, *g.fault == partialRepeated && f.Kind == inbox.FollowResumes:
		e.Follows, e.Recent = nil, nil
	}
	return g.Accepter.Accept(ctx, a)
}

// faultyOutcomes plants wrong outcomes for the receiver.
type faultyOutcomes struct {
	*operation.Store
	fault *fault
	sent  *[]byte // the intent hash of the payload that was sent last
}

func (o faultyOutcomes) Await(ctx context.Context, event inbox.ID, atMost time.Duration) ([]byte, bool, error) {
	document, ok, err := o.Store.Await(ctx, event, atMost)
	if *o.fault == unsettledInsist && !ok {
		return []byte(`{"status":"failed","next":"resume"}`), true, err
	}
	return document, ok, err
}

func (o faultyOutcomes) FollowedCall(ctx context.Context, f *inbox.Follow) (*operation.FollowedCall, error) {
	call, err := o.Store.FollowedCall(ctx, f)
	if call != nil && *o.fault == resumedTwice {
		call.Follower = inbox.ID{}
	}
	if call != nil && *o.fault == otherPayload && f.Kind == inbox.FollowResumes {
		call.Intent = *o.sent // that the earlier call has another one is not noticed
	}
	return call, err
}

// The model notices each mistake that was there before.
func TestTheModelNoticesMistakes(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	for _, m.planted = range []fault{unsettledInsist, partialRepeated, otherPayload, resumedTwice, prunedIsNone, noNote} {
		said := ""
		for seed := uint64(0); seed < 200 && said == ""; seed++ {
			m.draw = rand.New(rand.NewPCG(seed, 28)).IntN
			said = m.noticed(30)
		}
		if said == "" {
			t.Errorf("%s: 200 walks noticed nothing", m.planted)
		}
		t.Logf("%s: %s", m.planted, said)
	}
}

// noticed is what a walk found wrong; empty if nothing.
func (m *model) noticed(steps int) (said string) {
	type found string
	defer func() {
		if value := recover(); value != nil {
			text, ok := value.(found)
			if !ok {
				panic(value)
			}
			said = string(text)
		}
	}()
	m.fail = func(format string, args ...any) { panic(found(fmt.Sprintf(format, args...))) }
	m.walk(steps)
	return ""
}
