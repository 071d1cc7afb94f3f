package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) replayStatusCommand() *cobra.Command {
	var follow bool
	var show int
	cmd := &cobra.Command{
		Use: "status <plan>", Short: "Show a replay and how far it has come", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseReplay(args[0])
			if err != nil {
				return err
			}
			if show < 0 || show > 1000 {
				return usagef("--show %d: must be from 0 to 1000", show)
			}
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				plan, err := control.Call(cmd.Context(), caller, &control.ShowReplay, control.IDRequest{ID: id})
				if err != nil {
					return err
				}
				if follow {
					return s.follow(cmd.Context(), caller, plan)
				}
				return s.showReplay(cmd.Context(), caller, plan, show)
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "show how far it is until the effects are done, and not only queued")
	cmd.Flags().IntVar(&show, "show", 0, "show that many items, with their diffs")
	return cmd
}

// followEvery is the interval at which a followed replay is checked.
const followEvery = 500 * time.Millisecond

// follow waits until the effects of a running replay are done: first until the replay has acted on
// all of them, then until the workers have run them. Without a terminal it writes lines instead of
// a bar.
func (s *shell) follow(ctx context.Context, caller control.Caller, plan *control.Replay) error {
	id := plan.ID
	bar, lines := s.progress(int64(plan.Summary.ToDo), "replaying"), s.followLines()
	var going map[string]int
	err := every(ctx, followEvery, func() (done bool, err error) {
		if plan, err = control.Call(ctx, caller, &control.ShowReplay, control.IDRequest{ID: id}); err != nil {
			return false, err
		}
		bar.total(int64(plan.Summary.ToDo))
		bar.at(int64(plan.Summary.Acted()))
		if plan.State == replay.Running || plan.State == replay.Planning {
			lines.say(fmt.Sprintf("replaying: %d of %d acted on", plan.Summary.Acted(), plan.Summary.ToDo))
			return false, nil
		}
		if plan.Summary.Acted() == 0 {
			return true, nil
		}
		bar.describe("carrying out")
		going = unsettled(plan.Effects.ByState())
		lines.say("carrying out: " + countsText(plan.Effects.ByState()))
		return going[""] == 0, nil
	})
	bar.done()
	if err != nil {
		return err
	}
	if n := going[string(inbox.EffectHeld)]; n > 0 {
		fmt.Fprintf(s.err, "oncegate: %s still held, for an earlier effect or for a decision: `oncegate streams list` shows why\n", plural(n, "effect is", "effects are"))
	}
	return s.showReplay(ctx, caller, plan, 0)
}

// shownReplay is the JSON form of a replay, with the requested items.
type shownReplay struct {
	*control.Replay
	Items []control.ReplayItem `json:"items,omitempty"`
}

// showReplay shows a replay and some of its items.
func (s *shell) showReplay(ctx context.Context, caller control.Caller, plan *control.Replay, show int) error {
	out := shownReplay{Replay: plan}
	if show > 0 {
		items, err := control.Call(ctx, caller, &control.ListReplayItems, control.ListReplayItemsRequest{
			PageRequest: control.PageRequest{Limit: show}, IDRequest: control.IDRequest{ID: plan.ID},
		})
		if err != nil {
			return err
		}
		out.Items = items.Data
	}
	if s.output == "json" {
		return s.json(out)
	}
	s.showSummary(s.out, &plan.Replay)
	if plan.Summary.Acted() > 0 {
		fmt.Fprintln(s.out)
		page(s.out, append(counted("items", plan.Summary.Outcomes), counted("effects now", plan.Effects.ByState())...))
	}
	if e := plan.Effects; e != nil && e.Open > 0 {
		page(s.out, []pair{{"open", plural(e.Open, "effect has", "effects have") + " not ended"}})
	}
	if plan.Waits != "" {
		page(s.out, []pair{{"waits", plan.Waits}})
	}
	if out.ETA != "" {
		page(s.out, []pair{{"left", "about " + out.ETA}})
	}
	for i := range out.Items {
		s.showItem(&out.Items[i])
	}
	return nil
}

// counted lists counts by name under one heading.
func counted[K ~string](heading string, counts map[K]int) []pair {
	names := make([]K, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	pairs := make([]pair, len(names))
	for i, name := range names {
		pairs[i] = pair{heading + ": " + string(name), fmt.Sprint(counts[name])}
	}
	return pairs
}

// showSummary writes the content of a plan, with the largest part first.
func (s *shell) showSummary(w io.Writer, r *replay.Replay) {
	expires := ""
	if r.State == replay.Planned {
		expires = timeOrEmpty(r.ExpiresAt)
	}
	rate := ""
	if r.Rate > 0 {
		rate = fmt.Sprintf("%g a second", r.Rate)
	}
	missing := ""
	if r.Summary.Unknown > 0 {
		missing = fmt.Sprintf("%d of the ids name nothing, such as %s", r.Summary.Unknown, r.Summary.Missing[0])
	}
	page(w, []pair{
		{"replay", r.ID.String()},
		{"state", string(r.State)},
		{"actor", r.Actor},
		{"reason", r.Reason},
		{"only", r.Scope.OfRun()},
		{"planned", clock(r.CreatedAt)},
		{"expires", expires},
		{"started", timeOrEmpty(r.StartedAt)},
		{"ended", timeOrEmpty(r.FinishedAt)},
		{"rate", rate},
		{"items", fmt.Sprintf("%d, %d to do", r.Summary.Items, r.Summary.ToDo)},
		{"unknown", missing},
		{"found", r.Nothing()},
		{"digest", r.Digest},
	})
	if len(r.Summary.Groups) == 0 {
		return
	}
	groups := slices.Clone(r.Summary.Groups)
	slices.SortStableFunc(groups, func(a, b replay.Group) int { return b.Count - a.Count })
	t := &table{header: []string{"COUNT", "SOURCE", "ROUTE", "TARGET", "ACTION", "VERDICT"}, whole: []string{"ACTION", "VERDICT"}}
	for _, g := range groups {
		t.add(fmt.Sprint(g.Count), g.Source, g.Name, g.Target, would(g.Action, g.LeftOut), string(g.Verdict))
	}
	fmt.Fprintln(w)
	t.write(w, s.width())
}

// showItem writes one item and what a replay would change.
func (s *shell) showItem(it *control.ReplayItem) {
	fmt.Fprintln(s.out)
	effect := "to be made"
	if it.Effect != nil {
		effect = it.Effect.String()
	}
	pairs := []pair{
		{"#", fmt.Sprint(it.Position)},
		{"effect", effect},
		{"key", it.Source + "/" + it.EventID},
		{"type", it.Type},
		{"route", it.Route},
		{"action", would(it.Action, it.LeftOut)},
		{"verdict", string(it.Verdict)},
		{"outcome", string(it.Outcome)},
		{"detail", it.Detail},
		{"now", it.State},
	}
	page(s.out, append(pairs, diffPairs(it.Diff)...))
	s.sayHidden(it.PayloadHidden)
}
