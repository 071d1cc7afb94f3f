package console

import (
	"fmt"
	"strconv"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/control"
)

// listUnknown shows the effects whose outcome is unknown.
func listUnknown(r *request) (*page, error) {
	since, err := r.since("since")
	if err != nil {
		return nil, err
	}
	tenant := control.TenantFilter{Tenant: r.query("tenant")}
	groups, err := call(r, &control.GroupIndeterminates, control.GroupIndeterminatesRequest{
		TenantFilter: tenant, Source: r.query("source"), Type: r.query("type"), Route: r.query("route"), Target: r.query("target"), Since: since,
	})
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListEffects, control.ListEffectsRequest{
		PageRequest: r.pageRequest(),
		EffectFilter: control.EffectFilter{
			TenantFilter: tenant, Source: r.query("source"), Type: r.query("type"), Route: r.query("route"), State: string(inbox.EffectIndeterminate), Since: since,
		},
	})
	if err != nil {
		return nil, err
	}
	p := &page{
		Title: "Unknown outcomes",
		Lead:  "The sending began, and no answer said how it ended. Their targets cannot recognise a repeat, so that nothing is sent again by itself.",
	}
	p.Blocks = append(p.Blocks,
		block{Filter: r.filterOf(
			r.textField("source", "Source"), r.textField("route", "Route"), r.textField("type", "Type"), r.textField("tenant", "Tenant"), r.sinceField("since", "Since"))},
		block{Title: "What to check", Text: "Look at the target, in its log or its list, for the idempotency key, for the id of the event, or for what the payload says, at about the time of the send. If it happened, resolve it as done. If it certainly did not, send it again. A target that has a probe is asked by Oncegate itself."},
		block{ID: "places", Title: "By target", Table: tableOf(r, groups, "There is no unknown outcome that matches.", []string{"Unknown", "Where", "First send", "Last send", ""}, func(g read.UnknownGroup) []cell {
			narrowed := []string{"source", g.Source, "route", g.Route, "target", g.Target}
			resolve := cell{}
			if r.may(control.Operate) {
				resolve = linked("Resolve these", to("/unknown/resolve", narrowed...))
			}
			return []cell{counted(g.Count, g.More), {Text: g.Route + " → " + g.Target, Href: to("/unknown", narrowed[:4]...), Detail: g.Source}, instant(g.First), instant(g.Last), resolve}
		})},
		block{ID: "effects", Title: "One by one", Table: effectTable(r, found, "")},
	)
	return p, nil
}

// previewResolve counts the unknown outcomes that a decision would resolve.
func previewResolve(r *request) (*page, error) {
	f := control.UnknownFilter{TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source"), Type: r.query("type"), Route: r.query("route"), Target: r.query("target")}
	var err error
	if f.Since, err = r.since("since"); err != nil {
		return nil, err
	}
	found, err := call(r, &control.ResolveEffects, control.ResolveEffectsRequest{Filter: f, All: f == control.UnknownFilter{}, DryRun: true})
	if err != nil {
		return nil, err
	}
	n := strconv.Itoa(found.Matched)
	p := &page{Title: "Resolve unknown outcomes", Back: &link{Text: "Unknown outcomes", Href: "/unknown"}, Lead: count(found.Matched, "effect", "effects") + " would be decided about. What came since is not touched."}
	if found.Matched > 0 {
		p.Blocks = append(p.Blocks, block{ID: "examples", Title: "Some of them", Table: effectTable(r, read.Page[read.EffectRow]{Data: found.Examples}, "")})
		p.Blocks = append(p.Blocks, block{Forms: []form{{
			Action: "/unknown/resolve", Button: "Resolve", Danger: true,
			Fields: []field{
				hidden("seen", string(found.Seen)), hidden("count", n), resolutionField(), reasonField(), typedField(n),
			},
		}}})
	}
	return p, nil
}

// resolutionField offers the ways to resolve an unknown outcome.
func resolutionField() field {
	return field{Name: "as", Label: "They", Kind: "select", Required: true, Options: []option{{Text: "choose what you found"}, {Value: "done", Text: "happened"}, {Value: "resend", Text: "did not happen: send them again"}}}
}

// resolveMany resolves the unknown outcomes that a preview found.
func resolveMany(r *request) (*page, error) {
	why, err := r.why(r.PostFormValue("count"))
	if err != nil {
		return nil, err
	}
	var total decide.ResolvedMany
	seen := control.Seen(r.PostFormValue("seen"))
	for step := 0; seen != "" && step < maxSteps; step++ {
		done, err := call(r, &control.ResolveEffects, control.ResolveEffectsRequest{Explained: why, As: decide.Resolution(r.PostFormValue("as")), Seen: seen})
		if err != nil {
			return nil, err
		}
		total.Resolved += done.Resolved
		total.Changed += done.Changed
		total.CalledAgain += done.CalledAgain
		total.Gone += done.Gone
		seen = done.Seen
	}
	detail := changedText(total.Changed)
	if n := total.CalledAgain + total.Gone; n > 0 {
		detail += fmt.Sprintf(" %d were not sent again: a later call repeats them, or their route is gone. Decide about each alone.", n)
	}
	return &page{Title: "Resolved", Back: &link{Text: "Unknown outcomes", Href: "/unknown"}, Blocks: []block{{Notice: &notice{
		Kind: "good", Text: count(total.Resolved, "outcome is recorded.", "outcomes are recorded."), Detail: detail,
	}}}}, nil
}

// resolveOne records the outcome of one effect.
func resolveOne(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	as := decide.Resolution(r.PostFormValue("as"))
	why, err := r.why(string(as))
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.ResolveEffect, control.ResolveEffectRequest{
		Match: r.match(), Explained: why, ID: id, As: as, CalledAgain: r.PostFormValue("called_again") == "true",
	}); err != nil {
		return nil, err
	}
	return r.seeOther(effectLink(id), "resolved")
}

// effectActions returns the actions for an effect.
func effectActions(r *request, e *control.Effect) (b block, ok bool) {
	if !r.may(control.Operate) {
		return b, false
	}
	b = block{ID: "actions", Title: "Decide"}
	id, tag := e.ID.String(), hidden("tag", e.Tag())
	switch inbox.EffectState(e.State) {
	case inbox.EffectDead:
		b.Links = []link{{Text: "Plan a replay of this effect", Href: to("/replays/new", "ids", id)}}
		b.Forms = []form{{Action: "/effects/" + id + "/discard", Title: "Discard it", Text: "It never happens.", Button: "Discard", Closed: true, Danger: true, Fields: []field{reasonField(), typedField("discard")}}}
	case inbox.EffectIndeterminate:
		again := field{Name: "called_again", Kind: "checkbox", Label: "Also if a later call repeats its operation"}
		b.Forms = []form{
			{ID: "done", Action: "/effects/" + id + "/resolve", Title: "It happened", Button: "Record that it happened", Closed: true, Fields: []field{tag, hidden("as", "done"), reasonField(), typedField("done")}},
			{
				ID: "resend", Action: "/effects/" + id + "/resolve", Title: "It did not happen", Text: "It is sent again. If it had happened, it happens twice.", Button: "Send it again", Closed: true, Danger: true,
				Fields: []field{tag, hidden("as", "resend"), reasonField(), typedField("resend"), again},
			},
		}
	case inbox.EffectHeld:
		if !reasons.Reason(e.Reason).ForPerson() {
			return b, false
		}
		b.Text = "Its place in its stream is not known, is taken, or is a time too far ahead, so that only a person ends its wait."
		b.Forms = []form{
			{Action: "/effects/" + id + "/apply", Title: "Let it run", Button: "Let it run", Closed: true, Fields: []field{tag, reasonField()}},
			{Action: "/effects/" + id + "/skip", Title: "Skip it", Text: "It never happens.", Button: "Skip", Closed: true, Danger: true, Fields: []field{tag, reasonField(), typedField("skip")}},
		}
	default:
		if !listOpen(e) {
			return b, false
		}
	}
	if listOpen(e) {
		b.Forms = append(b.Forms, form{
			ID: "cancel", Action: "/effects/" + id + "/cancel", Title: "Cancel the list", Button: "Cancel the list", Closed: true, Danger: true,
			Text: "Attempts that have begun end. The other messages are skipped.", Fields: []field{reasonField(), typedField("cancel")},
		})
	}
	return b, true
}

// listOpen reports whether an effect became a list that can be cancelled.
func listOpen(e *control.Effect) bool {
	if e.List == nil || e.List.CancelledAt != nil {
		return false
	}
	at := e.List.States
	return e.List.Written < e.List.Total || at[inbox.EffectPending]+at[inbox.EffectClaimed]+at[inbox.EffectRetry]+at[inbox.EffectHeld] > 0
}

// cancelList cancels the list that an effect became.
func cancelList(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	why, err := r.why("cancel")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.CancelList, control.CancelListRequest{Explained: why, ID: id}); err != nil {
		return nil, err
	}
	return r.seeOther(effectLink(id), "decided")
}

// decideHeld returns the handler that decides about an effect that is held for an operator.
func decideHeld(operation *control.Operation[control.DecideEffectRequest, control.DecidedEffects], word string) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		id, err := r.id()
		if err != nil {
			return nil, err
		}
		why, err := r.why(word)
		if err != nil {
			return nil, err
		}
		if _, err := call(r, operation, control.DecideEffectRequest{Match: r.match(), Explained: why, ID: id}); err != nil {
			return nil, err
		}
		return r.seeOther(effectLink(id), "decided")
	}
}
