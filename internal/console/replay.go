package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/control"
)

// listReplays shows replays, newest first.
func listReplays(r *request) (*page, error) {
	found, err := call(r, &control.ListReplays, control.ListReplaysRequest{
		PageRequest: r.pageRequest(), TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, State: r.query("state"),
	})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Replays", Lead: "A replay carries out effects at rest again. You plan it first, and it sends nothing before you run it."}
	p.Blocks = append(p.Blocks, block{Filter: r.filterOf(r.choiceField("state", "State", wordsOf(replay.States())...), r.textField("tenant", "Tenant"))})
	if r.may(control.Operate) {
		p.Blocks = append(p.Blocks, block{Links: []link{{Text: "Plan a replay", Href: "/replays/new"}, {Text: "Compare a run", Href: "/runs"}}})
	}
	p.Blocks = append(p.Blocks, block{Table: tableOf(r, found, "Nothing was replayed.", []string{"Planned", "Replay", "State", "To do", "Taken", "By"}, func(x control.Replay) []cell {
		if isUnderWay(x.State) {
			p.Refresh = 5
		}
		return []cell{
			instant(x.CreatedAt), {Text: scopeText(x.Scope), Href: "/replays/" + x.ID.String()}, replayState(&x), number(x.Summary.ToDo), number(x.Summary.Acted()),
			{Text: x.Actor, Detail: x.Reason},
		}
	})})
	return p, nil
}

// isUnderWay reports whether a replay in that state changes by itself.
func isUnderWay(s replay.State) bool {
	return s == replay.Planning || s == replay.Running || s == replay.Queued
}

// replayState returns the state of a replay and, while it is under way, how its effects stand.
func replayState(x *control.Replay) cell {
	c := state(string(x.State))
	if e := x.Effects; e != nil && isUnderWay(x.State) {
		c.Detail = count(e.Open, "effect", "effects") + " open, " + groupDigits(int64(e.Done)) + " done, " + groupDigits(int64(e.Dead)) + " dead"
		if e.Indeterminate > 0 {
			c.Detail += ", " + groupDigits(int64(e.Indeterminate)) + " of unknown outcome"
		}
	}
	return c
}

// scopeText describes the scope of a replay.
func scopeText(s replay.Scope) string {
	switch {
	case s.Named > 0:
		return count(s.Named, "event or effect by its id", "events and effects by their ids")
	case s.All || s.IsZero():
		return "everything at rest"
	}
	var parts []string
	if s.Label != nil {
		parts = append(parts, "label "+s.Label.String())
	}
	for _, pair := range [][2]string{
		{"run", s.Run}, {"source", s.Source}, {"route", s.Route}, {"target", s.Target}, {"type", s.Type}, {"reason", s.Reason}, {"failure", string(s.ErrorClass)}, {"id", s.EventID}, {"text", s.Text}, {"tenant", s.Tenant},
	} {
		if pair[1] != "" {
			parts = append(parts, pair[0]+" "+pair[1])
		}
	}
	if !s.Since.IsZero() {
		parts = append(parts, "since "+s.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if !s.Until.IsZero() {
		parts = append(parts, "until "+s.Until.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return strings.Join(parts, ", ")
}

// newReplay shows the form for a plan, filled in from the page where the user was.
func newReplay(r *request) (*page, error) {
	if !r.may(control.Operate) {
		return nil, &control.Problem{Code: control.CodeForbidden, Detail: "to plan a replay needs the scope operate"}
	}
	ids := field{Name: "ids", Label: "Ids of effects or events, one a line", Kind: "textarea", Value: r.query("ids"), Hint: "Leave it empty to use the filter below."}
	named := ids.Value != "" // a plan of ids takes no filter
	if named {
		ids.Hint = ""
	}
	fields := []field{ids}
	for _, f := range []struct{ name, label string }{
		{"source", "Source"}, {"run", "Run of the source"}, {"label", "Label, as name=value"}, {"route", "Route"}, {"target", "Target"}, {"reason", "Reason of failure"}, {"error_class", "Kind of failure"}, {"type", "Type"}, {"event_id", "Sender's id"},
		{"text", "What the target said"}, {"tenant", "Tenant"}, {"since", "Since"}, {"until", "Until"},
	} {
		switch {
		case named, (f.name == "label" || f.name == "text") && !r.may(control.ReadPayload): // such a search would be refused
		case f.name == "error_class":
			fields = append(fields, r.choiceField(f.name, f.label, errorClasses()...))
		default:
			fields = append(fields, r.offer(r.textField(f.name, f.label)))
		}
	}
	for _, f := range []struct{ name, label, hint string }{
		{"all", "Everything", "all dead letters, and the effects chosen below; without ids and without a filter"},
		{"include_indeterminate", "Also unknown outcomes", "they may happen twice"},
		{"include_discarded", "Also what was discarded", ""},
		{"include_shadow", "Evaluate again what shadow mode skipped", "nothing of it is sent"},
		{"carry_out_shadow", "Carry out what shadow mode skipped", "only what no other handler has done"},
		{"include_done", "Also what happened", "only under a new key"},
		{"new_key", "Under new idempotency keys", "targets do not recognise them"},
		{"new_routes", "Also for routes that are new since", ""},
	} {
		if named && f.name == "all" {
			continue
		}
		fields = append(fields, field{Name: f.name, Label: f.label, Kind: "checkbox", Hint: f.hint, Checked: r.query(f.name) == "true"})
	}
	return &page{Title: "Plan a replay", Lead: "A plan shows what would happen, and which effects it leaves out and why. It sends nothing.", Back: &link{Text: "Replays", Href: "/replays"}, Blocks: []block{
		{Forms: []form{{Action: "/replays", Button: "Make the plan", Fields: fields}}},
	}}, nil
}

// planReplay makes a plan from the form.
func planReplay(r *request) (*page, error) {
	ask := control.PlanReplayRequest{Options: replay.Options{
		IncludeDone: r.ticked("include_done"), IncludeIndeterminate: r.ticked("include_indeterminate"), IncludeDiscarded: r.ticked("include_discarded"),
		IncludeShadow: r.ticked("include_shadow"), CarryOutShadow: r.ticked("carry_out_shadow"),
		NewKey: r.ticked("new_key"), NewRoutes: r.ticked("new_routes"),
	}}
	ask.All = r.ticked("all")
	ask.RunScope = control.RunScope{Run: strings.TrimSpace(r.PostFormValue("run")), Label: strings.TrimSpace(r.PostFormValue("label"))}
	for line := range strings.FieldsSeq(strings.ReplaceAll(r.PostFormValue("ids"), ",", " ")) {
		id, err := inbox.ParseID(line)
		if err != nil {
			return nil, &control.Problem{Code: control.CodeInvalid, Detail: fmt.Sprintf("%q is not one of Oncegate's ids", line)}
		}
		ask.IDs = append(ask.IDs, id)
	}
	value := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	ask.Filter = control.DeadLetterFilter{
		TenantFilter: control.TenantFilter{Tenant: value("tenant")}, Source: value("source"), Type: value("type"), Route: value("route"), Target: value("target"), Reason: value("reason"), ErrorClass: read.ErrorClass(value("error_class")),
		EventID: value("event_id"), Text: value("text"),
	}
	var err error
	if ask.Filter.Since, err = parseSince("since", value("since"), r.now); err != nil {
		return nil, err
	}
	if ask.Filter.Until, err = parseSince("until", value("until"), r.now); err != nil {
		return nil, err
	}
	planned, err := call(r, &control.PlanReplay, ask)
	if err != nil {
		return nil, err
	}
	return r.seeOther("/replays/"+planned.ID.String(), "planned")
}

func (r *request) ticked(name string) bool { return r.PostFormValue(name) == "true" }

// showReplay shows a replay: what it would do or has done, and its items.
func showReplay(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	x, err := call(r, &control.ShowReplay, control.IDRequest{ID: id})
	if err != nil {
		return nil, err
	}
	items, err := call(r, &control.ListReplayItems, control.ListReplayItemsRequest{
		PageRequest: r.pageRequest(), IDRequest: control.IDRequest{ID: id}, Action: replay.Action(r.query("action")), LeftOut: replay.LeftOut(r.query("left_out")),
		Verdict: replay.Verdict(r.query("verdict")), Outcome: replay.ItemOutcome(r.query("outcome")), Open: r.query("open") == "true",
	})
	if err != nil {
		return nil, err
	}
	return replayPage(r, x, items), nil
}

func replayPage(r *request, x *control.Replay, items read.Page[control.ReplayItem]) *page {
	p := &page{Title: "Replay", Lead: scopeText(x.Scope), Back: &link{Text: "Replays", Href: "/replays"}}
	if isUnderWay(x.State) {
		p.Refresh = 2
	}
	if x.Waits != "" {
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "warn", Text: "It waits: " + x.Waits + "."}})
	}
	if missing := x.Summary.Missing; len(missing) > 0 {
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "warn", Text: "Some ids name nothing that is recorded.", Detail: strings.Join(missing, ", ")}})
	}
	if nothing := x.Nothing(); nothing != "" {
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "warn", Text: capital(nothing) + "."}})
	}
	progress := cell{Text: fmt.Sprintf("%s of %s", groupDigits(int64(x.Summary.Acted())), groupDigits(int64(x.Summary.ToDo)))}
	if x.ETA != "" {
		progress.Detail = "about " + x.ETA + " more"
	}
	p.Blocks = append(p.Blocks, block{ID: "progress", Facts: facts(
		is("State", replayState(x)),
		is("Items taken", progress),
		is("Left out", number(x.Summary.Items-x.Summary.ToDo)),
		is("Planned", cell{At: x.CreatedAt, Detail: "by " + x.Actor}),
		is("Reason", text(x.Reason)),
		is("May be run until", instantOf(x.ExpiresAt)),
		is("Started", instantOf(x.StartedAt)),
		is("Finished", instantOf(x.FinishedAt)),
		is("Rate", rateCell(x.Rate)),
		is("Options", text(optionsText(x.Options))),
		is("Where the effects stand now", effectsNow(x.Effects.ByState())),
		is("Digest", code(x.Digest)),
	)})
	p.Blocks = append(p.Blocks, replayActions(r, x)...)
	groups := slices.SortedFunc(slices.Values(x.Summary.Groups), func(a, b replay.Group) int { return b.Count - a.Count })
	p.Blocks = append(p.Blocks, block{ID: "plan", Title: "The plan", Table: tableOf(r, read.Page[replay.Group]{Data: groups}, "Nothing matches.", []string{"Items", "Where", "What happens", "Today's configuration"}, func(g replay.Group) []cell {
		what := cell{Text: actionOf(g.Action)}
		if g.LeftOut != "" {
			what = cell{Text: "left out", Detail: words(string(g.LeftOut))}
		}
		return []cell{number(g.Count), {Text: g.Name + " → " + g.Target, Detail: g.Source}, what, text(words(string(g.Verdict)))}
	})})
	p.Blocks = append(p.Blocks, block{
		ID: "items", Title: "Items", Filter: r.filterOf(
			r.choiceField("left_out", "Left out because of", wordsOf(replay.LeftOuts())...), r.choiceField("outcome", "Outcome", wordsOf(replay.ItemOutcomes())...),
			r.choiceField("verdict", "Today's configuration", wordsOf(replay.Verdicts())...), r.checkField("open", "Not acted on yet")),
		Table: tableOf(r, items, "No item matches.", []string{"", "Event", "Effect", "What happens", "Outcome", "Difference"}, func(i control.ReplayItem) []cell {
			effect := cell{Text: i.Route + " → " + i.Target}
			if i.Effect != nil {
				effect.Href = effectLink(*i.Effect)
			}
			what := cell{Text: actionOf(i.Action), Detail: words(i.PlannedState)}
			if i.LeftOut != "" {
				what = cell{Text: "left out", Detail: words(string(i.LeftOut))}
			}
			became := cell{State: string(i.Outcome), Detail: i.Detail}
			if i.State != "" && i.Outcome != "" && i.Outcome != replay.ItemLeftOut {
				became = cell{Marks: []mark{{State: string(i.Outcome)}, {State: i.State}}, Detail: i.Detail}
			}
			diff := cell{Text: words(string(i.Verdict)), Detail: cut(diffText(i.Diff))}
			if i.PayloadHidden {
				diff.Detail = "the difference needs the scope read-payload"
			}
			return []cell{number(i.Position), {Text: i.EventID, Href: eventLink(i.Event), Detail: i.Source + " · " + i.Type}, effect, what, became, diff}
		}),
	})
	return p
}

func rateCell(rate float32) cell {
	if rate == 0 {
		return cell{}
	}
	return text(strconv.FormatFloat(float64(rate), 'f', -1, 32) + " a second at most")
}

// actionOf describes what a replay does with an item.
func actionOf(a replay.Action) string {
	switch a {
	case replay.ActionReplay:
		return "sent again under its key"
	case replay.ActionNewKey:
		return "sent under a new key"
	case replay.ActionCarryOut:
		return "carried out after shadow mode"
	case replay.ActionCreate:
		return "made for a new route"
	case replay.ActionNone:
		return "nothing"
	}
	return string(a)
}

func optionsText(o replay.Options) string {
	var out []string
	for _, one := range []struct {
		set  bool
		text string
	}{
		{o.IncludeDone, "also what happened"}, {o.IncludeIndeterminate, "also unknown outcomes"}, {o.IncludeDiscarded, "also what was discarded"},
		{o.IncludeShadow, "also what shadow mode skipped, evaluated again"}, {o.CarryOutShadow, "carries out what shadow mode skipped"},
		{o.IncludeCalledAgain, "although it was called again"}, {o.NewKey, "under new keys"}, {o.NewRoutes, "also for new routes"},
	} {
		if one.set {
			out = append(out, one.text)
		}
	}
	return strings.Join(out, ", ")
}

// effectsNow returns the states of the effects on which a replay has acted.
func effectsNow(counts map[string]int) cell {
	var c cell
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		c.Marks = append(c.Marks, mark{State: name, Count: groupDigits(int64(counts[name]))})
	}
	return c
}

// diffText describes what today's configuration would do differently.
func diffText(stored json.RawMessage) string {
	var diff replay.Diff
	if len(stored) == 0 || json.Unmarshal(stored, &diff) != nil {
		return ""
	}
	lines := slices.Clone(diff.Why)
	if diff.Recorded != nil && diff.Today != nil && diff.Today.Address != diff.Recorded.Address {
		lines = append(lines, diff.Recorded.Address+" → "+diff.Today.Address)
	}
	for _, c := range diff.Changes {
		lines = append(lines, c.Path+": "+or(c.Before, "nothing")+" → "+or(c.After, "nothing"))
	}
	return strings.Join(lines, "; ")
}

// replayActions returns the actions for a replay.
func replayActions(r *request, x *control.Replay) []block {
	if !r.may(control.Operate) {
		return nil
	}
	b := block{ID: "actions"}
	id := x.ID.String()
	if x.State == replay.Planned && x.Summary.ToDo > 0 {
		word := x.Digest[:min(len(x.Digest), replay.MinDigest)]
		b.Forms = append(b.Forms, form{
			ID: "run", Title: "Run it", Action: "/replays/" + id + "/run", Button: "Run", Danger: true,
			Text:   fmt.Sprintf("%s would be carried out. The word to type is the beginning of the plan's digest: it changes with the plan.", count(x.Summary.ToDo, "item", "items")),
			Fields: []field{hidden("digest", x.Digest), reasonField(), {Name: "rate", Label: "At most, items a second", Kind: "number", Hint: "Empty: as many as live deliveries leave room for."}, typedField(word)},
		})
	}
	if x.State == replay.Planned || x.State == replay.Running || x.State == replay.Planning {
		b.Forms = append(b.Forms, form{Title: "Cancel it", Action: "/replays/" + id + "/cancel", Button: "Cancel the replay", Closed: true, Text: "What is done stays done.", Fields: []field{reasonField()}})
	}
	if len(b.Forms) == 0 {
		return nil
	}
	return []block{b}
}

// runReplay runs a plan. The user must have typed the beginning of its digest.
func runReplay(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	digest := r.PostFormValue("digest")
	why, err := r.why(digest[:min(len(digest), replay.MinDigest)])
	if err != nil {
		return nil, err
	}
	ask := control.RunReplayRequest{Explained: why, ID: id, Digest: digest}
	if given := strings.TrimSpace(r.PostFormValue("rate")); given != "" {
		rate, err := strconv.ParseFloat(given, 32)
		if err != nil {
			return nil, &control.Problem{Code: control.CodeInvalid, Detail: "the rate must be a number of items a second"}
		}
		ask.Rate = float32(rate)
	}
	if _, err := call(r, &control.RunReplay, ask); err != nil {
		return nil, err
	}
	return r.seeOther("/replays/"+id.String(), "running")
}

// cancelReplay cancels a replay.
func cancelReplay(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	why, err := r.why("")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.CancelReplay, control.CancelReplayRequest{Explained: why, ID: id}); err != nil {
		return nil, err
	}
	return r.seeOther("/replays/"+id.String(), "cancelled")
}
