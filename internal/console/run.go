package console

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/control"
)

// compareRun compares the steps of a run, or of the events with a label, with the requests that would be sent today.
func compareRun(r *request) (*page, error) {
	p := &page{
		Title: "Compare a run", Back: &link{Text: "Replays", Href: "/replays"},
		Lead: "What is recorded of each step, and what the configuration of this server would send for it today. Nothing is sent.",
	}
	label := r.contentField("label", "Or a label")
	label.Hint = "name=value"
	form := r.filterOf(
		field{Name: "source", Label: "Source", Value: r.query("source"), Hint: "a run needs it"},
		field{Name: "run", Label: "Run", Value: r.query("run"), Hint: "the first part of the keys"},
		label,
		r.textField("tenant", "Tenant"), r.sinceField("since", "Since"))
	form.Button = "Compare"
	p.Blocks = append(p.Blocks, block{Filter: form})
	ask := control.CompareRunRequest{
		PageRequest: r.pageRequest(), TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source"),
		RunScope: control.RunScope{Run: r.query("run"), Label: r.query("label")},
	}
	if ask.RunScope == (control.RunScope{}) {
		return p, nil
	}
	var err error
	if ask.Since, err = r.since("since"); err != nil {
		return nil, err
	}
	found, err := call(r, &control.CompareRun, ask)
	if err != nil {
		return nil, err
	}
	p.Blocks = append(p.Blocks, stepBlocks(r, found)...)
	if r.may(control.Operate) {
		p.Blocks = append(p.Blocks, block{Links: []link{{Text: "Plan a replay of the effects at rest", Href: at("/replays/new", r.narrowing("source", "run", "label", "tenant", "since"))}}})
	}
	return p, nil
}

// stepBlocks are the steps of a page, and how many of them match.
func stepBlocks(r *request, found read.Page[control.ComparedStep]) []block {
	matching, hidden := 0, false
	for i := range found.Data {
		if hidden = hidden || found.Data[i].PayloadHidden; found.Data[i].Match {
			matching++
		}
	}
	sum := &notice{Kind: "warn", Text: fmt.Sprintf("%d of %s on this page match.", matching, count(len(found.Data), "step", "steps"))}
	if matching == len(found.Data) {
		sum.Kind = "good"
	}
	if hidden {
		sum.Detail = "In what the others differ needs the scope read-payload."
	}
	steps := tableOf(r, found, "No step was found.", []string{"Step", "Effect", "Comparison", "Recorded", "Today"}, stepCells)
	steps.Forward = true
	if len(found.Data) == 0 {
		return []block{{ID: "steps", Table: steps}}
	}
	return []block{{Notice: sum}, {ID: "steps", Title: "Steps, the first one first", Table: steps}}
}

// stepCells are the cells of one step.
func stepCells(s control.ComparedStep) []cell {
	step := cell{Text: or(s.Key, s.EventID), Href: eventLink(s.Event), Detail: s.Operation}
	effect := cell{Text: or(s.Route, "no route"), Detail: words(string(s.State))}
	if !s.Effect.IsZero() {
		effect.Href = effectLink(s.Effect)
	}
	verdict := cell{State: string(s.Verdict)}
	if s.Match {
		verdict.State = "matches"
	}
	lines := append([]string{}, s.Why...)
	for _, c := range s.Changes {
		lines = append(lines, c.Path+": "+or(c.Before, "nothing")+" → "+or(c.After, "nothing"))
	}
	verdict.Detail = cut(strings.Join(lines, "; "))
	return []cell{step, effect, verdict, requestCell(s.Original), requestCell(s.Today)}
}

// requestCell is one side of a step: where it goes, and what its body is known by.
func requestCell(q *replay.DiffSide) cell {
	if q == nil {
		return cell{}
	}
	c := cell{Text: strings.TrimSpace(q.Target + " " + q.Method), Detail: q.Address}
	if q.Body != nil {
		c.Detail = join(c.Detail, byteSize(int64(q.Body.Bytes))+", sha256 "+q.Body.SHA256[:min(len(q.Body.SHA256), 8)])
	}
	return c
}

// runOf is the run of an operation's event, as its caller sends it; empty for any other event.
func runOf(e *read.EventDetail) string {
	parts := strings.Split(e.EventID, ":")
	if e.Provider != "operation" || len(parts) < 4 { // a key of one part is a run of one step
		return ""
	}
	run, err := url.PathUnescape(parts[2])
	if err != nil {
		return ""
	}
	return run
}
