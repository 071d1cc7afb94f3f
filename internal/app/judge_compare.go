package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Comparison says what today's configuration would send for each effect of an event, in any state of the
// effect. It has no other method of a [Judge] and sends nothing.
type Comparison struct {
	judge *Judge
	kept  *keptQuestions // the questions for dry runs; nil if none is asked
}

var _ replay.Comparer = (*Comparison)(nil)

// Comparison returns the comparison that an audit uses.
func (j *Judge) Comparison() *Comparison { return &Comparison{judge: j} }

// comparing is one step that is being compared.
type comparing struct {
	event  *judgedEvent
	effect *replay.RecordedEffect
	was    routeDescription
	route  *judgedRoute
	step   *replay.RunStep
}

// Compare implements [replay.Comparer].
func (c *Comparison) Compare(_ context.Context, r *replay.RecordedEvent) ([]replay.RunStep, error) {
	event := judgedEvent{RecordedEvent: r, source: c.judge.sources[r.SourceID]}
	_, rest, _ := strings.Cut(r.Event.EventID, ":")
	operation, key, _ := strings.Cut(rest, ":")
	blank := replay.RunStep{Event: r.Event.ID, EventID: r.Event.EventID, Operation: operation, Key: key}
	out := make([]replay.RunStep, 0, len(r.Effects))
	taken := map[int32]bool{}
	for i := range r.Effects {
		e := &r.Effects[i]
		taken[e.RouteID] = true
		was, err := c.judge.version(e)
		if err != nil {
			return nil, err
		}
		step := blank
		step.Effect, step.Route, step.State = e.Effect, e.Route, e.State
		step.Original = recordedRequest(&event, e, was)
		one := comparing{event: &event, effect: e, was: was, route: c.judge.routes[e.RouteID], step: &step}
		step.Verdict = c.verdict(&one)
		step.Match = step.Verdict == replay.StepSame
		c.kept.keep(c.judge, &one)
		out = append(out, step)
	}
	if event.source != nil {
		for _, route := range event.source.routes {
			if !taken[route.inbox.ID] && route.inbox.Matches(r.Event.Type) {
				if step := blank; c.newRoute(&event, route, &step) {
					out = append(out, step)
				}
			}
		}
	}
	if len(out) == 0 { // no route took it, and none would today
		blank.Match, blank.Verdict, blank.Why = true, replay.StepSame, []string{"no route took it, and none would today"}
		out = append(out, blank)
	}
	return out, nil
}

func (c *comparing) why(format string, args ...any) {
	c.step.Why = append(c.step.Why, fmt.Sprintf(format, args...))
}

// verdict compares one effect. It ignores what was stored for the effect and makes the request from the event
// alone.
func (c *Comparison) verdict(s *comparing) replay.StepVerdict {
	e := s.effect
	switch {
	case e.State == inbox.EffectDuplicate, e.State == inbox.EffectSuperseded, e.State == inbox.EffectSkipped && e.Reason != reasons.Condition:
		s.step.Original.Body = nil
		s.why("it is %s: nothing was sent for it, and its order, its key and the decisions of people stand", e.State)
		return replay.StepSame
	case e.Lost:
		s.why("what was sent is sealed with a key that is not here, or damaged")
		return replay.StepGone
	case s.event.source == nil || s.route == nil:
		s.why("the route is not in the configuration")
		return replay.StepNoRoute
	case !s.route.inbox.Matches(s.event.Event.Type):
		s.why("the route no longer takes the type")
		return replay.StepNoRoute
	}
	p := c.preview(s)
	sent, made := sentBody(s.event, e, s.was)
	made = made && e.State != inbox.EffectSkipped && (e.Attempts > 0 || e.Version > 1 || e.State.Settled())
	switch {
	case s.event.Event.BodyGone:
		s.why("the body is gone: %s", cannotRender(p))
		return replay.StepGone
	case !p.Known:
		s.why("the route's target is not in the configuration")
		return replay.StepNoRoute
	case p.Unfetched && !made:
		s.why("no request was made; %s", unfetched)
		return replay.StepSame
	case p.Unfetched:
		s.why("%s", unfetched)
		return replay.StepOtherBody
	case p.State != "" && !made:
		s.why("no request was made, and none would be: %s", cannotRender(p))
		return replay.StepSame
	case p.State == inbox.EffectSkipped:
		s.why("its condition is false today: %s", p.Said)
		return replay.StepNoRoute
	case p.State != "":
		s.why("%s", cannotRender(p))
		return replay.StepCannotRender
	}
	s.step.Today = todayRequest(s.event, e, s.route, &p)
	s.step.Today.Headers = shownHeaders(p.Request.Headers, s.route.today.KeyHeader)
	if !made {
		if e.State.Waiting() || e.State == inbox.EffectHeld || e.State == inbox.EffectClaimed {
			s.why("it is under way: nothing is recorded as sent yet")
		}
		return replay.StepNewRequest
	}
	return c.requests(s, &p, sent)
}

// preview makes today's request under the effect's recorded key.
func (c *Comparison) preview(s *comparing) jobs.Preview {
	claim := claimOf(s.event, s.effect, c.judge.cfg.Now())
	claim.Rendered, claim.UnknownSince, claim.KeyHash = nil, time.Time{}, nil
	return c.judge.previewer.Preview(claim)
}

// requests compares the request that was sent with today's.
func (c *Comparison) requests(s *comparing, p *jobs.Preview, sent []byte) replay.StepVerdict {
	e, today := s.effect, s.route.today
	was := s.was
	if fixed, err := effect.ReadRendered(e.Rendered); err == nil && fixed.Address != "" {
		s.step.Original.Address, s.step.Original.AddressSHA256 = s.route.shownAddress(fixed.Address)
		if p.Request.Address == fixed.Address {
			was.Address, was.AddressSHA256 = today.Address, today.AddressSHA256
		} else {
			was.AddressSHA256 = s.step.Original.AddressSHA256
		}
	}
	if was.known() && was.elsewhere(today) || !was.known() && was.Target != today.Target {
		s.why("it would go elsewhere")
		return replay.StepOtherTarget
	}
	if was.known() && !was.sameStatement(today) {
		s.why("the database would run another statement or other parameters")
		return replay.StepOtherBody
	}
	if p.Items > 1 || isStoredList(sent, e) {
		return c.lists(s, p, sent)
	}
	if !bytes.Equal(sent, p.Request.Body) {
		s.step.Changes = changes(sent, p.Request.Body, s.event.source.redact)
		canonical(s.step.Original.Body, sent, s.event.source.redact)
		canonical(s.step.Today.Body, p.Request.Body, s.event.source.redact)
		if !sameJSON(sent, p.Request.Body) {
			return replay.StepOtherBody
		}
		s.why("the same JSON would be written with other bytes")
	}
	if p.KeyHash != nil && e.KeyHash != nil && !s.madeBy(p.KeyHash) {
		s.why("the route's recipe makes another key today")
		return replay.StepOtherKey
	}
	return replay.StepSame
}

// madeBy reports whether the effect's key was made from the hash.
func (c *comparing) madeBy(hash []byte) bool {
	return hash != nil && bytes.Equal(inbox.StoredKeyHash(hash, c.route.stored.KeyWithin, c.event.Event.ReceivedAt), c.effect.KeyHash)
}

// isStoredList reports whether the stored bytes of an effect of item 0 are the list that it became.
func isStoredList(stored []byte, e *replay.RecordedEffect) bool {
	return e.Rendered != nil && len(stored) > 0 && stored[0] == '[' && e.Item == 0
}

// lists compares the recipients of a list and the template of its messages, because the same list and the same
// template make the same messages.
func (c *Comparison) lists(s *comparing, p *jobs.Preview, sent []byte) replay.StepVerdict {
	var before []string
	s.step.Today.Body = nil
	if json.Unmarshal(sent, &before) != nil || !slices.Equal(before, p.List) {
		s.why("it became %d messages, and would become %d, or to others", len(before), p.Items)
		return replay.StepOtherBody
	}
	if s.was.known() && !maps.Equal(s.was.Mail, s.route.today.Mail) {
		s.why("the recipients are the same, and the message is another one")
		return replay.StepOtherBody
	}
	s.why("the same %d recipients, of the same template", len(before))
	return replay.StepSame
}

// newRoute describes a route that would take the event today and has no effect of it.
func (c *Comparison) newRoute(event *judgedEvent, route *judgedRoute, step *replay.RunStep) bool {
	e := &replay.RecordedEffect{RouteID: route.inbox.ID, Route: route.Name}
	p := c.judge.previewer.Preview(claimOf(event, e, c.judge.cfg.Now()))
	if p.State == inbox.EffectSkipped {
		return false
	}
	step.Route, step.Verdict, step.Why = route.Name, replay.StepNewRequest, []string{"no effect was recorded for this route"}
	if p.State != "" {
		step.Verdict = replay.StepCannotRender
		step.Why = append(step.Why, cannotRender(p))
		return true
	}
	step.Today = todayRequest(event, e, route, &p)
	step.Today.Headers = shownHeaders(p.Request.Headers, route.today.KeyHeader)
	if p.Unfetched {
		step.Today.Body, step.Why = nil, append(step.Why, unfetched)
	}
	return true
}

// sameJSON reports whether both are JSON with the same canonical form (RFC 8785).
func sameJSON(a, b []byte) bool {
	x, errX := jcs.Transform(a)
	y, errY := jcs.Transform(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
