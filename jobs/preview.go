package jobs

import (
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Previewer computes what the worker would do with a claim. It runs the same code, without a
// target, a database or a queue.
type Previewer struct {
	// Routes, Senders and Transactionals are the fields of [Config].
	Routes         map[int32]Route
	Senders        map[string]effect.Sender
	Transactionals map[string]effect.Transactional

	// Stored are the routes as the store knows them, with their orders. It may be nil.
	Stored map[int32]inbox.EffectRoute
}

// Preview is what the worker would do with a claim.
type Preview struct {
	// Known is false if the configuration has no such route, or its target no kind.
	Known bool
	Route Route

	// State is the state that the effect reaches without an attempt, because of Reason: skipped,
	// dead or indeterminate. It is empty if an attempt would be made. Said has the details and
	// quotes nothing of the event.
	State  inbox.EffectState
	Reason reasons.Reason
	Said   string

	// KeyHash is the key by the route's recipe, before it is fitted to a window. It is nil without
	// a recipe.
	KeyHash []byte

	// Unfetched means that an attempt would fetch first and that no answer is stored, so that nothing else is known. A
	// preview fetches nothing.
	Unfetched bool

	// Items is how many effects the effect becomes, if more than one.
	Items int

	// List is the items of a list, as texts such as recipients.
	List []string

	// MissingKey is the sealing key that this process lacks, if Reason says so.
	MissingKey int32

	// AddressMade means that the address was computed now, because none is stored or the stored one
	// is no longer valid.
	AddressMade bool

	// Request is what would be sent. If Stored is true, its body was stored for the effect;
	// if Rendered is true, it was made now. If neither is true, it is the body as received.
	Request          effect.Request
	Stored, Rendered bool
}

// Preview returns what the worker would do with the claim.
func (p *Previewer) Preview(claim *inbox.Claim) (out Preview) {
	configured, ok := p.Routes[claim.RouteID]
	if !ok {
		return Preview{}
	}
	route := &configured
	out.Route = configured
	sender, transactional := p.Senders[route.Target], p.Transactionals[route.Target]
	if out.Known = sender != nil || transactional != nil; !out.Known {
		return out
	}
	defer func() {
		if v := recover(); v != nil { // as the worker does it
			out.State, out.Reason, out.Said = inbox.EffectDead, reasons.Render, fmt.Sprintf("panic of type %T", v)
		}
	}()
	dead := func(reason reasons.Reason, said string) Preview {
		out.State, out.Reason, out.Said = inbox.EffectDead, reason, clean(said)
		return out
	}
	if claim.Event.BodyGone && (claim.Item == 0 || claim.Rendered == nil) {
		out.MissingKey = claim.Event.MissingKey
		return dead(claim.Event.GoneReason, "")
	}
	if out.Unfetched = route.unfetched(claim); out.Unfetched {
		return out
	}
	switch yes, err := route.wants(claim); {
	case err != nil:
		return dead(reasons.Mapping, "when: "+route.When.String()+": "+err.Error())
	case !yes:
		out.State, out.Reason, out.Said = route.unwanted(claim), reasons.Condition, "when: "+route.When.String()
		return out
	}
	if route.asksForKey(claim) && claim.Item == 0 {
		var err error
		if out.KeyHash, err = route.Key.Hash(route.keyInput(claim)); err != nil {
			return dead(reasons.Mapping, "key: "+err.Error())
		}
		remade := *claim
		claim = &remade
		route.remakeKey(claim, out.KeyHash, "")
	}
	call := route.call(claim)
	out.Stored = claim.Rendered != nil
	if sender == nil {
		return p.request(out, transactional, call)
	}
	if route.expands(claim) {
		items, err := route.items(claim)
		if err != nil {
			return dead(reasons.Mapping, "to: "+route.List.Items.String()+": "+err.Error())
		}
		if len(items) == 0 {
			out.State, out.Reason, out.Said = inbox.EffectSkipped, reasons.Condition, "to: "+route.List.Items.String()+": nobody"
			return out
		}
		for _, item := range items {
			out.List = append(out.List, item.text)
		}
		if out.Items = len(items); out.Items > 1 && p.Stored[claim.RouteID].RefusesLists() {
			return dead(reasons.ListOrder, listRefusal(route, out.Items))
		}
		one := *call
		if len(items) > 1 {
			one.Key = inbox.ItemKey(claim, items[0].meaning)
		}
		if len(items) == 1 && out.KeyHash != nil {
			route.remakeKey(claim, out.KeyHash, items[0].meaning)
			one.Key = claim.Key
			out.KeyHash = inbox.ItemKeyHash(out.KeyHash, items[0].meaning)
		}
		if call.Rendered, err = safeItem(route.List, &one, items[0].text); err != nil {
			return dead(reasons.Mapping, "message: "+err.Error())
		}
		out.Rendered = !out.Stored
		return p.request(out, sender, call)
	}
	if route.List != nil && claim.Rendered == nil { // an item that could not be rendered
		rendered, err := route.List.render(call, claim.ListText)
		if err != nil {
			return dead(reasons.Mapping, "message: "+err.Error())
		}
		call.Rendered, out.Rendered = rendered, true
		return p.request(out, sender, call)
	}
	if route.List != nil && out.KeyHash != nil && route.List.ItemOf != nil {
		if text, err := route.List.ItemOf(claim.Rendered); err == nil {
			out.KeyHash = inbox.ItemKeyHash(out.KeyHash, route.List.meaning(text))
		}
	}
	if err := openRendered(call); err != nil {
		return dead(reasons.Render, err.Error())
	}
	out.Stored = call.Rendered != nil
	rendered, err := route.mapBody(call, claim)
	if err != nil {
		return dead(reasons.Mapping, "map: "+err.Error())
	}
	if call.Rendered == nil && rendered == nil {
		if rendered, err = safeRender(sender, call); err != nil {
			return dead(reasons.Render, err.Error())
		}
	}
	if call.Rendered == nil {
		call.Rendered, out.Rendered = rendered, rendered != nil
	}
	switch fixed, err := route.fixAddress(sender, claim, call); {
	case errors.Is(err, errElsewhere):
		out.State, out.Reason, out.Said = inbox.EffectIndeterminate, reasons.Elsewhere, err.Error()
		return out
	case err != nil:
		return dead(reasons.Mapping, "url: "+err.Error())
	default:
		out.AddressMade = fixed.made
	}
	return p.request(out, sender, call)
}

func (p *Previewer) request(out Preview, kind any, call *effect.Call) Preview {
	shown, ok := kind.(effect.Previewer)
	if !ok {
		out.Request.Body = call.Event.Body
		if call.Rendered != nil {
			out.Request.Body = call.Rendered
		}
		return out
	}
	r, failure := shown.Preview(call)
	if failure != nil {
		out.State, out.Reason, out.Said = inbox.EffectDead, reasons.Of(failure.Reason), failure.Excerpt
		return out
	}
	out.Request = r
	return out
}
