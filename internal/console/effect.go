package console

import (
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// listEffects shows effects, newest first.
func listEffects(r *request) (*page, error) {
	since, err := r.since("since")
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListEffects, control.ListEffectsRequest{
		PageRequest: r.pageRequest(), EventID: r.query("event_id"), Key: r.query("key"),
		EffectFilter: control.EffectFilter{
			TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source"), Type: r.query("type"),
			Route: r.query("route"), State: r.query("state"), Reason: r.query("reason"), Since: since,
		},
	})
	if err != nil {
		return nil, err
	}
	return &page{Title: "Effects", Lead: "What routes do for events, one line for each route and event.", Blocks: []block{
		{Filter: r.filterOf(
			r.textField("source", "Source"), r.textField("type", "Type"), r.choiceField("state", "State", control.EffectStates()...), r.textField("reason", "Reason"), r.textField("route", "Route"), r.textField("event_id", "Sender's id"),
			r.textField("key", "Idempotency key or Message-ID"), r.textField("tenant", "Tenant"), r.sinceField("since", "Since"))},
		{Table: effectTable(r, found, "No effect matches.")},
	}}, nil
}

func effectTable(r *request, found read.Page[read.EffectRow], empty string) *table {
	return tableOf(r, found, empty, []string{"Recorded", "Effect", "Event", "State", "Attempts", "Next attempt"}, func(e read.EffectRow) []cell {
		name := cell{Text: e.Route + " → " + e.Target, Href: effectLink(e.ID), Detail: join(e.Source, e.Tenant)}
		if e.Item > 0 {
			name.Detail = join(name.Detail, fmt.Sprintf("item %d", e.Item))
		}
		return []cell{
			instant(e.ID.Time()), name, {Text: e.EventID, Href: eventLink(e.Event), Detail: e.Type},
			effectState(&e), number(e.Attempts), instantOf(e.NextAt),
		}
	})
}

func effectState(e *read.EffectRow) cell {
	if e.Waits != "" {
		return cell{State: e.State, Detail: e.Waits}
	}
	return cell{State: e.State, Detail: join(words(e.Reason), e.Code)}
}

// itemsBlock shows the items of a list, each with what its message says.
func itemsBlock(r *request, items read.Page[control.Item]) block {
	b := block{ID: "items", Title: "Items of the list", Filter: r.filterOf(r.choiceField("state", "State", control.EffectStates()...))}
	if slices.ContainsFunc(items.Data, func(i control.Item) bool { return i.Message.Shown().PayloadHidden }) {
		b.Text = messageHidden
	}
	b.Table = tableOf(r, items, "No item matches.", []string{"Item", "Recipient", "Subject", "State", "Attempts", "Next attempt"}, func(i control.Item) []cell {
		m := i.Message.Shown()
		return []cell{
			linked(fmt.Sprint(i.Item), effectLink(i.ID)), text(m.Recipient), {Text: m.Subject, Detail: join(m.MessageID, m.Problem)},
			effectState(&i.EffectRow), number(i.Attempts), instantOf(i.NextAt),
		}
	})
	return b
}

// messageHidden says what is missing for somebody who may not see payloads.
const messageHidden = "Recipient, subject and Message-ID need the scope read-payload."

// showEffect shows one effect with its attempts.
func showEffect(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	effect, err := call(r, &control.ShowEffect, control.IDRequest{ID: id})
	if err != nil {
		return nil, err
	}
	audit, err := call(r, &control.ListAudit, control.ListAuditRequest{PageRequest: control.PageRequest{Limit: shownRows}, Object: "effect/" + id.String()})
	if err != nil {
		return nil, err
	}
	p := effectPage(r, effect, audit.Data)
	if effect.List != nil {
		items, err := call(r, &control.ListItems, control.ListItemsRequest{PageRequest: r.pageRequest(), IDRequest: control.IDRequest{ID: id}, State: r.query("state")})
		if err != nil {
			return nil, err
		}
		p.Blocks = append(p.Blocks, itemsBlock(r, items))
	}
	return p, nil
}

func effectPage(r *request, e *control.Effect, audit []read.AuditRow) *page {
	p := &page{
		Title: e.Route + " → " + e.Target, Lead: join(e.Type, "from "+e.Source, e.Tenant), Back: &link{Text: "Event " + e.EventID, Href: eventLink(e.Event)},
	}
	if inbox.EffectState(e.State) == inbox.EffectDead {
		p.Blocks = append(p.Blocks, deadBlock(r, e, "This effect did not happen, and will not by itself."))
	} else if n := effectNotice(e); n != nil {
		p.Blocks = append(p.Blocks, block{Notice: n})
	}
	duplicate := cell{}
	if e.DuplicateOf != nil {
		duplicate = linked(e.DuplicateOf.String(), effectLink(*e.DuplicateOf))
	}
	message, hidden := e.Message.Shown(), ""
	if message.PayloadHidden {
		hidden = messageHidden
	}
	var cancelled *time.Time
	if e.List != nil {
		cancelled = e.List.CancelledAt
	}
	p.Blocks = append(p.Blocks, block{Facts: facts(
		is("State", effectState(&e.EffectRow)),
		is("List cancelled", instantOf(cancelled)),
		is("Event", linked(e.Source+"/"+e.EventID, eventLink(e.Event))),
		is("Attempts", number(e.Attempts)),
		is("Next attempt", instantOf(e.NextAt)),
		is("Send began", instantOf(e.SendStartedAt)),
		is("Finished", instantOf(e.FinishedAt)),
		is("Duplicate of", duplicate),
		is("Idempotency key", code(e.Key)),
		is("Recipient", text(message.Recipient)),
		is("Subject", text(message.Subject)),
		is("Message-ID", code(message.MessageID)),
		is("Message", text(message.Problem+hidden)),
		is("Our id", code(e.ID.String())),
		is("Trace", code(e.TraceID)),
	)})
	story := attemptStory(e)
	for i := range story {
		story[i].Level = 0
	}
	for _, entry := range slices.Backward(audit) { // oldest first
		story = append(story, auditMoment(entry))
	}
	b := block{ID: "attempts", Title: "Attempts", Story: story}
	if len(story) == 0 {
		b.Text = or(e.Waits, "None was made.")
	}
	p.Blocks = append(p.Blocks, b)
	if actions, ok := effectActions(r, e); ok {
		p.Blocks = append(p.Blocks, actions)
	}
	p.Blocks = append(p.Blocks, block{ID: "copy", Title: "As a command", Code: "oncegate effects show " + e.ID.String()})
	return p
}

// effectNotice returns what an operator should know before deciding about an effect.
func effectNotice(e *control.Effect) *notice {
	switch e.State {
	case "indeterminate":
		return &notice{
			Kind: "warn", Text: "Nobody knows whether this effect happened: its sending began, and no answer said how it ended.",
			Detail: "Ask the target for the idempotency key below, or for what the event says. Then say here that it happened, or have it sent again.",
		}
	case "held":
		return &notice{Kind: "info", Text: "This effect waits for another one of its stream."}
	}
	return nil
}
