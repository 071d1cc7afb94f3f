package app

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// effect returns what would happen to one recorded effect.
func (j *Judge) effect(ctx context.Context, event *judgedEvent, e *replay.RecordedEffect) (replay.Judgement, error) {
	was, err := j.version(e)
	if err != nil {
		return replay.Judgement{}, err
	}
	d := event.diff(e.Route)
	d.Recorded = recordedRequest(event, e, was)
	verdict, err := j.verdict(ctx, event, e, was, d)
	if err != nil {
		return replay.Judgement{}, err
	}
	return d.judgement(e.Effect, e.RouteID, verdict)
}

// verdict returns the verdict and writes its reasons into the diff.
func (j *Judge) verdict(ctx context.Context, event *judgedEvent, e *replay.RecordedEffect, was routeDescription, d *diff) (replay.Verdict, error) {
	included := event.Includes != nil && e.State == inbox.EffectSkipped && event.Includes(e.Reason)
	switch {
	case e.State.Settled() && !event.NewKey && !included:
		return replay.VerdictDone, d.why("it is %s", e.State)
	case !e.State.Settled() && !e.State.AtRest():
		return replay.VerdictSame, d.why("it is under way: %s", e.State)
	}
	route := j.routes[e.RouteID]
	switch {
	case event.source == nil:
		return replay.VerdictNoRoute, d.why("the source is not in the configuration: nothing can be sent until it is configured again, or named by previous_names of what it became")
	case route == nil:
		return replay.VerdictNoRoute, d.why("the route is not in the configuration: nothing can be sent until it is configured again, or named by previous_names of what it became")
	case !route.inbox.Matches(event.Event.Type):
		return replay.VerdictNoRoute, d.why("the route no longer takes the type")
	}
	route.place(event, e, d)
	if passed := route.passed(e); passed != "" {
		return replay.VerdictDone, d.why("%s", passed)
	}
	if !route.current {
		_ = d.why("no server was started with this version of the route yet")
	}
	now := j.cfg.Now()
	claim := claimOf(event, e, now)
	p := j.previewer.Preview(claim)
	switch {
	case !p.Known:
		return replay.VerdictNoRoute, d.why("the route's target is not in the configuration")
	case p.Unfetched:
		_ = d.why("%s", unfetched)
		d.Today = todayRequest(event, e, route, &p)
		d.Today.Body = nil
		return replay.VerdictOtherBody, nil
	case p.State == inbox.EffectIndeterminate:
		return replay.VerdictOtherKey, d.why("%s: it becomes indeterminate, nothing is sent", p.Said)
	case p.State == inbox.EffectSkipped:
		return replay.VerdictNoRoute, d.why("its condition is false: %s", p.Said)
	case p.State != "":
		return replay.VerdictCannotRender, d.why("%s", cannotRender(p))
	}
	d.Today = todayRequest(event, e, route, &p)
	if route.stored.Forgotten(claim.UnknownSince, now) {
		d.Today = nil
		return replay.VerdictOtherKey, d.why("an attempt may have happened longer ago than the target remembers keys (key_window): it becomes indeterminate, nothing is sent")
	}
	verdict := replay.VerdictSame
	if changed := j.body(event, e, route, was, &p, d); changed {
		verdict = replay.VerdictOtherBody
	}
	was = j.address(event, e, route, was, &p, d)
	if was.known() && was.elsewhere(route.today) || !was.known() && was.Target != route.today.Target {
		if to := route.today.Target; !claim.UnknownSince.IsZero() && was.Target != "" && was.Target != to {
			d.Today = nil
			return replay.VerdictOtherKey, d.why("an attempt may have happened at %s, and it would go to %s: it becomes indeterminate, nothing is sent", was.Target, to)
		}
		verdict = replay.VerdictOtherTarget
		_ = d.why("it goes elsewhere")
	}
	if other, err := j.key(ctx, event, e, route, &p, d); err != nil {
		return "", err
	} else if other {
		verdict = replay.VerdictOtherKey
	}
	if verdict == replay.VerdictSame {
		d.Today = nil
	}
	if d.Today != nil {
		d.Today.Headers = shownHeaders(p.Request.Headers, route.today.KeyHeader)
	}
	return verdict, nil
}

// unfetched says why nothing is known of a request that an attempt would fetch for.
const unfetched = "an attempt fetches what the request is made of, no answer is stored, and a plan fetches nothing: the condition and the body are not known"

// cannotRender returns why no request can be made.
func cannotRender(p jobs.Preview) string {
	switch p.Reason { //nolint:exhaustive // the others speak for themselves
	case reasons.BodyGone, "":
		return "the body is gone"
	case reasons.KeyMissing:
		return fmt.Sprintf("the body, or what was rendered of it, is sealed with key %d, which is not in this keyring", p.MissingKey)
	case reasons.Damaged:
		return "the body, or what was rendered of it, does not open with its key"
	}
	if p.Said == "" {
		return string(p.Reason)
	}
	return string(p.Reason) + ": " + p.Said
}

// claimOf returns the claim that the first attempt of a replay would make.
func claimOf(event *judgedEvent, e *replay.RecordedEffect, now time.Time) *inbox.Claim {
	claim := &inbox.Claim{
		Effect: e.Effect, RouteID: e.RouteID, Attempt: 1, Version: e.Version + 1, RouteVersion: e.RouteVersion, StartedAt: now, Since: now, Key: e.Key, Item: e.Item,
		KeyHash: e.KeyHash, UnknownSince: e.UnknownSince, Rendered: e.Rendered, Fetched: e.Fetched,
		SequenceKeyHash: e.SequenceKeyHash, SequenceNumber: e.SequenceNumber, Event: event.Event,
	}
	if event.NewKey || event.ForgetUnknown {
		claim.UnknownSince = time.Time{}
	}
	if event.NewKey && e.Key != "" { // a rendered request may contain the key: a mail's Message-ID
		claim.Key = replay.FreshKey(e.Key, e.Version+1)
	}
	lost := e.Lost
	if event.NewKey && e.Item == 0 { // only the list says what an item sends
		claim.Rendered, claim.Fetched, lost = nil, nil, false
	}
	if e.Item > 0 && claim.Rendered == nil {
		claim.ListText = listText(event, e)
	}
	if lost {
		claim.Event.BodyGone, claim.Event.GoneReason, claim.Event.MissingKey, claim.Event.Body = true, reasons.Damaged, e.MissingKey, nil
		if e.MissingKey != 0 {
			claim.Event.GoneReason = reasons.KeyMissing
		}
	}
	return claim
}

// listText returns the text, from the list, of an item that could not be rendered.
func listText(event *judgedEvent, item *replay.RecordedEffect) string {
	for i := range event.Effects {
		if head := &event.Effects[i]; head.RouteID == item.RouteID && head.Item == 0 {
			return jobs.ItemText(head.Rendered, item.Item)
		}
	}
	return ""
}

// body compares the body that was sent with the one that would be.
func (j *Judge) body(event *judgedEvent, e *replay.RecordedEffect, route *judgedRoute, was routeDescription, p *jobs.Preview, d *diff) (changed bool) {
	if p.Items > 1 {
		_ = d.why("it becomes %d messages", p.Items)
		d.Today.Body = nil
		return !p.Stored
	}
	recorded, made := sentBody(event, e, was)
	redact := event.source.redact
	switch {
	case !made:
		_ = d.why("no request was made before")
		canonical(d.Today.Body, p.Request.Body, redact)
		return true
	case !sameRequest(recorded, p.Request.Body):
		d.Changes = changes(recorded, p.Request.Body, redact)
		if !e.UnknownSince.IsZero() && !event.NewKey {
			_ = d.why("an attempt may have happened with the earlier body, under the same key: the target may refuse this one, or answer for that one")
		}
		if len(d.Changes) == 0 {
			_ = d.why("the same JSON is written with other bytes")
		}
		canonical(d.Recorded.Body, recorded, redact)
		canonical(d.Today.Body, p.Request.Body, redact)
		return true
	case was.known() && !was.sameStatement(route.today):
		_ = d.why("the database runs another statement or other parameters")
		return true
	case p.Stored && e.RouteVersion != int(route.inbox.Version):
		// This is the request that today's configuration would make if nothing were stored.
		again := claimOf(event, e, j.cfg.Now())
		again.Rendered = nil
		if fresh := j.previewer.Preview(again); fresh.State == "" && fresh.Items <= 1 && !sameRequest(fresh.Request.Body, recorded) {
			d.Unused = changes(recorded, fresh.Request.Body, redact)
			_ = d.why("the stored bytes are sent again, since their key belongs to them; today's rendering, which differs, needs a new key")
		}
	}
	return false
}

// sentBody returns the body that was sent, or would have been. made is false if no request was
// made.
func sentBody(event *judgedEvent, e *replay.RecordedEffect, was routeDescription) (body []byte, made bool) {
	if fixed, err := effect.ReadRendered(e.Rendered); err == nil && e.Rendered != nil {
		if fixed.Body == nil { // the body was sent as received, to the stored address
			return event.Event.Body, event.Event.Body != nil
		}
		return fixed.Body, true
	}
	if e.Lost {
		return nil, false
	}
	switch e.Reason { //nolint:exhaustive // under all others an attempt was made, or could have been
	case reasons.Mapping, reasons.Render, reasons.BodyGone, reasons.KeyMissing, reasons.Damaged, reasons.Condition:
		return nil, false
	}
	return event.Event.Body, !was.renders()
}

// key reports whether the target, or the route, would treat the effect as a different one because
// of its key.
func (j *Judge) key(ctx context.Context, event *judgedEvent, e *replay.RecordedEffect, route *judgedRoute, p *jobs.Preview, d *diff) (bool, error) {
	if event.NewKey {
		_ = d.why("it is sent under a new key: the target will not recognise it")
	}
	if p.KeyHash == nil {
		return event.NewKey, nil
	}
	hash := inbox.StoredKeyHash(p.KeyHash, route.stored.KeyWithin, event.Event.ReceivedAt)
	if bytes.Equal(hash, e.KeyHash) {
		return event.NewKey, nil
	}
	d.Today.KeyHash = hex.EncodeToString(hash)
	owner, err := inbox.KeyOwner(ctx, j.cfg.Pool, e.RouteID, hash)
	if err != nil {
		return false, err
	}
	if owner != e.Effect && !owner.IsZero() {
		d.Today = nil
		return true, d.why("today's key is owned by effect %s: it becomes a duplicate of that, nothing is sent", owner)
	}
	if e.KeyHash == nil {
		return event.NewKey, nil // it never asked for one
	}
	return true, d.why("the key's recipe makes another key: another effect may have happened or may happen in addition")
}

// newRoute judges a route that would take the event and has no effect of it.
func (j *Judge) newRoute(event *judgedEvent, route *judgedRoute) (replay.Judgement, bool, error) {
	d := event.diff(route.Name)
	e := &replay.RecordedEffect{RouteID: route.inbox.ID, Route: route.Name}
	if event.wasUnusable() {
		_ = d.why("it was recorded as unusable")
	}
	p := j.previewer.Preview(claimOf(event, e, j.cfg.Now()))
	verdict := replay.VerdictNewRoute
	switch {
	case event.unusable != "":
		verdict = replay.VerdictCannotRender
		_ = d.why("it is unusable still: %s", event.unusable)
	case route.Order.Policy.Ordered():
		verdict = replay.VerdictCannotRender
		_ = d.why("the route is ordered, and an effect that is made now has no place in its sequence")
	case p.State == inbox.EffectSkipped:
		return replay.Judgement{}, false, nil
	case p.State != "":
		verdict = replay.VerdictCannotRender
		_ = d.why("%s", cannotRender(p))
	default:
		_ = d.why("no effect was recorded for this route")
		if p.Unfetched {
			_ = d.why("%s", unfetched)
		}
		d.Today = todayRequest(event, e, route, &p)
		d.Today.Headers = shownHeaders(p.Request.Headers, route.today.KeyHeader)
		if p.Items > 1 {
			_ = d.why("it becomes %d messages", p.Items)
		}
		if p.Items > 1 || p.Unfetched {
			d.Today.Body = nil
		}
	}
	judgement, err := d.judgement(inbox.ID{}, route.inbox.ID, verdict)
	judgement.Ordered = route.Order.Policy.Ordered()
	return judgement, err == nil, err
}

// diff is a diff under construction.
type diff struct{ replay.Diff }

func (e *judgedEvent) diff(route string) *diff {
	return &diff{replay.Diff{
		Event: e.Event.ID.String(), EventID: e.Event.EventID, Type: e.Event.Type, Source: e.Source, Route: route,
		Signature: e.signature, Identity: e.identity,
	}}
}

// why adds a reason. It always returns nil, so that a verdict can be returned together with it.
func (d *diff) why(format string, args ...any) error {
	d.Why = append(d.Why, fmt.Sprintf(format, args...))
	return nil
}

func (d *diff) judgement(effect inbox.ID, route int32, verdict replay.Verdict) (replay.Judgement, error) {
	d.Verdict = verdict
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false) // it is shown on terminals, and masks are in angle brackets
	if err := encoder.Encode(&d.Diff); err != nil {
		return replay.Judgement{}, fmt.Errorf("writing the diff of event %s: %w", d.Event, err)
	}
	return replay.Judgement{Effect: effect, RouteID: route, Verdict: verdict, Diff: bytes.TrimSuffix(document.Bytes(), []byte("\n"))}, nil
}
