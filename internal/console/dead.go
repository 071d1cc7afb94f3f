package console

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// deadFields are the parameters that narrow dead letters, in the order of the form.
var deadFields = []string{"source", "route", "target", "reason", "error_class", "type", "event_id", "text", "tenant", "since", "until"}

// deadFilter reads the parameters that narrow dead letters.
func (r *request) deadFilter() (f control.DeadLetterFilter, err error) {
	f = control.DeadLetterFilter{
		TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source"), Route: r.query("route"), Target: r.query("target"),
		Reason: r.query("reason"), ErrorClass: read.ErrorClass(r.query("error_class")), Type: r.query("type"), EventID: r.query("event_id"), Text: r.query("text"),
	}
	if f.Since, err = r.since("since"); err != nil {
		return f, err
	}
	f.Until, err = r.since("until")
	return f, err
}

// errorClasses returns the kinds of failure to choose from.
func errorClasses() []string { return wordsOf(read.ErrorClasses()) }

// narrowing returns the named parameters of the address that are set, for a link or a form that
// keeps them.
func (r *request) narrowing(names ...string) url.Values {
	out := url.Values{}
	for _, name := range names {
		if v := r.query(name); v != "" {
			out.Set(name, v)
		}
	}
	return out
}

// listDead shows dead letters by cause and individually.
func listDead(r *request) (*page, error) {
	filter, err := r.deadFilter()
	if err != nil {
		return nil, err
	}
	groups, err := call(r, &control.GroupDeadLetters, filter)
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListDeadLetters, control.ListDeadLettersRequest{PageRequest: r.pageRequest(), DeadLetterFilter: filter})
	if err != nil {
		return nil, err
	}
	return deadPage(r, groups, found), nil
}

func deadPage(r *request, groups read.Page[read.DeadGroup], found read.Page[control.DeadLetter]) *page {
	p := &page{Title: "Dead letters", Lead: "What did not happen, and will not by itself. Mend the cause, then replay; or discard what needs not happen."}
	p.Blocks = append(p.Blocks, block{Filter: r.filterOf(
		r.textField("source", "Source"), r.textField("route", "Route"), r.textField("target", "Target"), r.textField("reason", "Reason"),
		r.choiceField("error_class", "Kind of failure", errorClasses()...), r.textField("type", "Type"), r.textField("event_id", "Sender's id"),
		r.textField("tenant", "Tenant"), r.sinceField("since", "Since"), r.sinceField("until", "Until"))})
	p.Blocks = append(p.Blocks, block{ID: "causes", Title: "By cause", Table: tableOf(r, groups, "There are no dead letters that match.", []string{"Dead", "Where", "Why", "First", "Last", ""}, func(g read.DeadGroup) []cell {
		where := cell{Text: g.Source, Href: to("/dead", "source", g.Source, "route", g.Route, "target", g.Target, "reason", g.Reason)}
		if g.Route != "" {
			where.Text, where.Detail = g.Route+" → "+g.Target, g.Source
		}
		plan := cell{}
		if r.may(control.Operate) {
			plan = linked("Plan a replay", to("/replays/new", "source", g.Source, "route", g.Route, "target", g.Target, "reason", g.Reason))
		}
		return []cell{counted(g.Count, g.More), where, {Text: words(g.Reason), Detail: join(g.Code, remedyOf(g.Reason, g.Target, g.Code).mend)}, instant(g.First), instant(g.Last), plan}
	})})
	if r.may(control.Operate) && len(groups.Data) > 0 {
		kept := r.narrowing(deadFields...)
		plan := r.narrowing(deadFields...)
		if len(plan) == 0 {
			plan.Set("all", "true")
		}
		p.Blocks = append(p.Blocks, block{ID: "actions", Links: []link{
			{Text: "Plan a replay of these", Href: at("/replays/new", plan)}, {Text: "Discard these", Href: at("/dead/discard", kept)},
		}})
	}
	p.Blocks = append(p.Blocks, block{ID: "letters", Title: "One by one", Table: tableOf(r, found, "", []string{"Died", "Effect", "Event", "Why", "Attempts"}, func(d control.DeadLetter) []cell {
		died := instant(d.ReceivedAt)
		if d.DiedAt != nil {
			died = instant(*d.DiedAt)
		}
		what := cell{Text: "the event itself", Href: eventLink(d.Event), Detail: d.Source}
		if d.Route != "" {
			what = cell{Text: d.Route + " → " + d.Target, Href: effectLink(d.ID), Detail: d.Source}
		}
		said := cell{Text: words(or(d.LastReason, d.Reason)), Detail: join(d.Code, cut(d.Said))}
		return []cell{died, what, {Text: d.EventID, Href: eventLink(d.Event), Detail: d.Type}, said, number(d.Attempts)}
	})})
	return p
}

// previewDiscard counts the dead letters that a decision would discard.
func previewDiscard(r *request) (*page, error) {
	filter, err := r.deadFilter()
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.DiscardDeadLetters, control.DiscardDeadLettersRequest{Filter: filter, All: filter == control.DeadLetterFilter{}, DryRun: true})
	if err != nil {
		return nil, err
	}
	n := strconv.Itoa(found.Matched)
	p := &page{
		Title: "Discard dead letters", Back: &link{Text: "Dead letters", Href: at("/dead", r.narrowing(deadFields...))},
		Lead: count(found.Matched, "dead letter", "dead letters") + " would never happen. What came since is not touched.",
	}
	if found.Matched > 0 {
		p.Blocks = append(p.Blocks, block{Forms: []form{{
			Action: "/dead/discard", Button: "Discard", Danger: true,
			Fields: []field{hidden("seen", string(found.Seen)), hidden("count", n), reasonField(), typedField(n)},
		}}})
	}
	return p, nil
}

// maxSteps is how many requests a bulk decision may take. Each handles up to 1,000 effects.
const maxSteps = 200

// discardDead discards the dead letters that a preview found.
func discardDead(r *request) (*page, error) {
	why, err := r.why(r.PostFormValue("count"))
	if err != nil {
		return nil, err
	}
	seen := control.Seen(r.PostFormValue("seen"))
	total := control.DiscardedDeadLetters{}
	for step := 0; seen != "" && step < maxSteps; step++ {
		done, err := call(r, &control.DiscardDeadLetters, control.DiscardDeadLettersRequest{Explained: why, Seen: seen})
		if err != nil {
			return nil, err
		}
		total.Discarded.Discarded += done.Discarded.Discarded
		total.Changed += done.Changed
		seen = done.Seen
	}
	return &page{Title: "Discarded", Back: &link{Text: "Dead letters", Href: "/dead"}, Blocks: []block{{Notice: &notice{
		Kind: "good", Text: count(total.Discarded.Discarded, "dead letter is discarded.", "dead letters are discarded."), Detail: changedText(total.Changed),
	}}}}, nil
}

// changedText says that some dead letters changed and were not touched.
func changedText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s changed meanwhile and was left alone.", count(n, "of them", "of them"))
}

// discardOne discards one dead letter.
func discardOne(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	why, err := r.why("discard")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.DiscardDeadLetters, control.DiscardDeadLettersRequest{Explained: why, IDs: []inbox.ID{id}}); err != nil {
		return nil, err
	}
	return r.seeOther(r.backTo("/effects/"+id.String()), "discarded")
}

// backTo returns the page to show after a form: the page of the event if the form names it, or
// otherwise.
func (r *request) backTo(otherwise string) string {
	if r.PostFormValue("of") == "event" {
		return "/events/" + r.PathValue("id")
	}
	return otherwise
}
