package receiver

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/rollup"
)

// Repeats says how to handle a call of an operation with the arguments of another one that its credential made a
// moment ago under another key. A caller that invents a key for each attempt makes such calls. The zero Repeats
// detects none.
type Repeats struct {
	// Within is how long after a call another one with its arguments is suspected; 0 looks for none.
	Within time.Duration

	// Refuse answers a suspected call with 409 and records nothing, unless it follows the earlier call
	// by a header. Otherwise it is done, and flagged.
	Refuse bool
}

// checkRepeats refuses settings of repeats that cannot be.
func checkRepeats(s *Source) error {
	all := []Repeats{s.Repeats}
	for _, o := range s.Operations {
		if o.Repeats != nil {
			all = append(all, *o.Repeats)
		}
	}
	for _, repeats := range all {
		if repeats.Within < 0 || repeats.Within > 0 && !s.Provider.IsOperation() {
			return errors.New("Repeats.Within must not be negative, and is for operations")
		}
	}
	return nil
}

// HeaderSuspectedRepeat is the event of the call with the same arguments that the credential made a moment
// before under another key.
const HeaderSuspectedRepeat = "Oncegate-Suspected-Repeat"

// checkRepeat checks whether the call repeats another one under a new key, and makes the gate check it too. It
// returns false if the call is refused for that. It finds a call that was recorded some time ago; the gate decides
// about calls that come at the same time.
func (o *operations) checkRepeat(ctx context.Context, req *request, event *inbox.NewEvent, body []byte) (result, bool) {
	source := req.source
	repeats := source.repeatsOf(event.Type)
	if repeats.Within <= 0 || event.Unusable != "" {
		return result{}, true
	}
	if req.intent == nil {
		req.intent = intentHash(source.Inbox.Comparison(event.Type), body[event.Offset:event.Offset+event.Length])
	}
	event.Recent = &inbox.RecentCall{
		Hash: inbox.RecentCallHash(req.caller.credential, event.Type, req.intent), Within: repeats.Within, Refuse: repeats.Refuse,
	}
	if !repeats.Refuse || o.cfg.Outcomes == nil {
		return result{}, true
	}
	first, key, err := o.cfg.Outcomes.RecentCall(ctx, source.Inbox.ID, event.Recent.Hash)
	switch {
	case errors.Is(err, inbox.ErrNotFound):
		return result{}, true
	case err != nil:
		o.logUnrecorded(req, err)
		return result{outcome: outcomeUnavailable}, false
	case key == event.EventID, event.Follows != nil && key == event.Follows.ParentKey:
		return result{}, true
	}
	switch known, err := o.recorded(ctx, req, event); {
	case err != nil:
		return result{outcome: outcomeUnavailable}, false
	case known: // a known key is answered, whichever call came first
		return result{}, true
	}
	return o.suspected(ctx, req, repeats, first), false
}

// suspected refuses a call that repeats another one.
func (o *operations) suspected(ctx context.Context, req *request, repeats Repeats, first inbox.ID) result {
	req.source.count.metrics.calls.repeats.WithLabelValues(req.source.count.label, "refused").Inc()
	return o.refuseFor(ctx, req, reasonSuspectedRepeat, first, "the same arguments came under another key within "+repeats.Within.String())
}

// suspectedByGate is for a call that the gate refused because another one came first.
func (o *operations) suspectedByGate(req *request, event *inbox.NewEvent) result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.http.Context()), lookupTimeout)
	defer cancel()
	first, _, err := o.cfg.Outcomes.RecentCall(ctx, req.source.Inbox.ID, event.Recent.Hash)
	if err != nil && !errors.Is(err, inbox.ErrNotFound) { // it is refused all the same
		o.logUnrecorded(req, err)
	}
	return o.suspected(ctx, req, req.source.repeatsOf(event.Type), first)
}

// noteRepeat notes which call a recorded one is suspected to repeat.
func (req *request) noteRepeat(receipt *inbox.Receipt) {
	first := receipt.Items[0].Repeats
	if first.IsZero() {
		return
	}
	req.repeats = first
	req.source.count.metrics.calls.repeats.WithLabelValues(req.source.count.label, "flagged").Inc()
	req.source.count.rollup[req.tenant()].Add(req.started, rollup.Suspected, 1)
}
