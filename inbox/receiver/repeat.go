package receiver

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/rollup"
)

// Repeats says what becomes of a call of an operation with the arguments of another one that its
// credential made a moment ago under another key: a caller that invents a key for each attempt
// does so. The zero Repeats looks for none.
type Repeats struct {
	// Within is how long after a call another one with its arguments is suspected; 0 looks for none.
	Within time.Duration

	// Refuse answers a suspected call with 409 and records nothing, unless it names an earlier call
	// in the header Oncegate-Parent. Otherwise it is done, and flagged.
	Refuse bool
}

// checkRepeats refuses settings of repeats that cannot be, and reports whether any of the source's calls is
// looked at.
func checkRepeats(s *Source) (wanted bool, err error) {
	all := []Repeats{s.Repeats}
	for _, o := range s.Operations {
		if o.Repeats != nil {
			all = append(all, *o.Repeats)
		}
	}
	for _, repeats := range all {
		wanted = wanted || repeats.Within > 0
		if repeats.Within < 0 || repeats.Within > 0 && !s.Provider.IsOperation() {
			err = errors.New("Repeats.Within must not be negative, and is for operations")
		}
	}
	return wanted, err
}

// CallClaimer remembers which call of a kind came first. [inbox.Operations] is one.
type CallClaimer interface {
	// ClaimCall notes the call as the first of its kind, or says which one came before.
	ClaimCall(ctx context.Context, c *inbox.RecentCall) (first inbox.ID, suspected bool, err error)

	// MarkRepeat notes with an event that it was suspected.
	MarkRepeat(ctx context.Context, event inbox.ID) error
}

// HeaderSuspectedRepeat is the event of the call with the same arguments that the credential made a moment
// before under another key. It is "unknown" if that call is not recorded yet.
const HeaderSuspectedRepeat = "Oncegate-Suspected-Repeat"

// suspicion is what a call is suspected to repeat.
type suspicion struct {
	suspected bool
	first     inbox.ID // zero if it is not recorded yet
}

func (s suspicion) String() string {
	if s.first.IsZero() {
		return "unknown"
	}
	return s.first.String()
}

// checkRepeat looks whether the call repeats another one under a new key. It returns false if the
// call is refused for it, or if nobody can tell and it might have to be.
func (r *Receiver) checkRepeat(req *request, a *inbox.Admission) (result, bool) {
	source, event := req.source, &a.Events[0]
	repeats := source.repeatsOf(event.Type)
	if repeats.Within <= 0 || r.cfg.Calls == nil || event.Unusable != "" {
		return result{}, true
	}
	ctx, cancel := context.WithTimeout(req.http.Context(), lookupTimeout)
	defer cancel()
	intent := intentHash(source.Inbox.Comparison(event.Type), a.Body[event.Offset:event.Offset+event.Length])
	first, suspected, err := r.cfg.Calls.ClaimCall(ctx, &inbox.RecentCall{
		Source: source.Inbox.ID, Hash: inbox.RecentCallHash(req.caller.credential, event.Type, intent), EventID: event.EventID,
		Within: repeats.Within, Insist: !event.Parent.IsZero(),
	})
	if err == nil && suspected {
		// A key that is known is answered, whoever came first since.
		_, err = r.cfg.Outcomes.Find(ctx, source.Inbox.ID, req.caller.credential, event.EventID)
		if err == nil {
			return result{}, true
		}
		if errors.Is(err, inbox.ErrNotFound) {
			err = nil
		}
	}
	switch {
	case err != nil && repeats.Refuse:
		r.logUnrecorded(req, err)
		return result{outcome: outcomeUnavailable}, false
	case err != nil: // a flag is worth less than the call
		r.logUnrecorded(req, err)
	case suspected && repeats.Refuse:
		source.repeats.refused.Inc()
		res := r.refuse(req, nil, reasonSuspectedRepeat, "the same arguments came under another key within "+repeats.Within.String())
		res.problem.event = first
		return res, false
	case suspected:
		req.repeat = suspicion{suspected: true, first: first}
	}
	return result{}, true
}

// flagRepeat notes a suspicion with the event that was recorded all the same.
func (r *Receiver) flagRepeat(req *request, receipt *inbox.Receipt) {
	if !req.repeat.suspected || receipt.Items[0].Outcome != inbox.Recorded {
		req.repeat = suspicion{}
		return
	}
	req.source.repeats.flagged.Inc()
	req.source.count.rollup[req.tenant()].Add(req.started, rollup.Suspected, 1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.http.Context()), lookupTimeout)
	defer cancel()
	if err := r.cfg.Calls.MarkRepeat(ctx, receipt.Items[0].ID); err != nil {
		r.logUnrecorded(req, err)
	}
}
