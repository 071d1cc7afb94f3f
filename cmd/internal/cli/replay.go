package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) replayCommand() *cobra.Command {
	return group("replay", "Plan, run, watch or cancel replays",
		s.replayPlanCommand(), s.replayRunCommand(), s.replayStatusCommand(), s.replayCancelCommand(), s.replayListCommand(), s.replayItemsCommand())
}

// planConnections is enough for four concurrent evaluations. Commands that do not plan open fewer
// connections.
const planConnections = 10

// plannedConfig returns the configuration that determines what would be sent today. It returns nil
// for `oncegate dev`, where plans are made without a configuration.
func (s *shell) plannedConfig() (*config.Config, error) {
	cfg, err := s.load()
	if err == nil {
		return cfg, nil
	}
	if _, dev := s.readDevState(); dev && s.configFile == "" && s.env("ONCEGATE_CONFIG") == "" && s.env("DATABASE_URL") == "" {
		return nil, nil //nolint:nilnil // see above
	}
	return nil, err
}

func parseReplay(text string) (inbox.ID, error) {
	id, err := inbox.ParseID(text)
	if err != nil {
		return id, usagef("%q is not a replay's id; `oncegate replay list` shows them", clean(text))
	}
	return id, nil
}

func (s *shell) replayRunCommand() *cobra.Command {
	var d decision
	var digest string
	var rate float32
	var follow bool
	cmd := &cobra.Command{
		Use: "run <plan>", Short: "Run a planned replay", Args: cobra.ExactArgs(1),
		Long: "Run a planned replay. It runs the planned items, except effects that have changed since. The workers\n" +
			"prefer live deliveries. --digest is what the plan printed, or its first 8 characters; on a terminal the\n" +
			"command asks for it. If the replay runs already, the command wakes it in case its job was lost.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseReplay(args[0])
			if err != nil {
				return err
			}
			if err := d.check(s, "why is it replayed?"); err != nil {
				return err
			}
			if rate < 0 || rate > 1e6 {
				return usagef("--rate %g: must be from 0 to 1000000 items a second", rate)
			}
			return s.control(cmd.Context(), d.actor, func(caller control.Caller) error {
				plan, err := control.Call(cmd.Context(), caller, &control.ShowReplay, control.IDRequest{ID: id})
				if err != nil {
					return err
				}
				start := control.RunReplayRequest{Explained: control.Explained{Reason: d.reason}, ID: id, Digest: digest, Rate: rate}
				return s.runReplay(cmd.Context(), caller, &plan.Replay, start, d, follow)
			})
		},
	}
	d.add(cmd)
	cmd.Flags().StringVar(&digest, "digest", "", "the digest that the plan printed")
	cmd.Flags().Float32Var(&rate, "rate", 0, "items a second at most; 0 is as many as live deliveries leave room for")
	cmd.Flags().BoolVar(&follow, "follow", false, "show how far it is until the effects are done, and not only queued")
	return cmd
}

// runReplay starts a plan that the user has seen.
func (s *shell) runReplay(ctx context.Context, caller control.Caller, plan *replay.Replay, start control.RunReplayRequest, d decision, follow bool) error {
	switch {
	case plan.State == replay.Planning:
		return &failure{text: fmt.Sprintf("replay %s is still being planned: run it when `oncegate replay status %s` says that it is planned", plan.ID, plan.ID)}
	case plan.State == replay.Planned && start.Digest == "" && !d.yes:
		if !s.interactive() {
			return usagef("there is no terminal to ask at: add the --digest that the plan printed, or --yes")
		}
		if err := s.confirm(d, plan.Digest[:replay.MinDigest], func() { s.showSummary(s.err, plan) }); err != nil {
			return err
		}
	}
	start.Digest = cmp.Or(start.Digest, plan.Digest)
	was := plan.State
	started, err := control.Call(ctx, caller, &control.RunReplay, start)
	switch {
	case problemCode(err) == control.CodeDigest:
		return &failure{text: oneLine(err.Error()) + "; look at it again with `oncegate replay status " + start.ID.String() + "`"}
	case err != nil:
		return err
	}
	if follow {
		return s.follow(ctx, caller, &control.Replay{Replay: started})
	}
	if s.output == "json" {
		return s.json(started)
	}
	verb := "runs now"
	if was == replay.Running {
		verb = "is running already, and was woken"
	}
	fmt.Fprintf(s.out, "replay %s %s; `oncegate replay status %s --follow` shows how far it is\n", started.ID, verb, started.ID)
	return nil
}

func (s *shell) replayCancelCommand() *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "cancel <plan>", Short: "Cancel a replay; its remaining effects do not change", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseReplay(args[0])
			if err != nil {
				return err
			}
			if err := d.check(s, "why is it cancelled?"); err != nil {
				return err
			}
			return s.control(cmd.Context(), d.actor, func(caller control.Caller) error {
				plan, err := control.Call(cmd.Context(), caller, &control.CancelReplay, control.CancelReplayRequest{Explained: control.Explained{Reason: d.reason}, ID: id})
				if err != nil {
					return err
				}
				if s.output == "json" {
					return s.json(plan)
				}
				fmt.Fprintf(s.out, "replay %s is cancelled: %d of %s had been acted on, the rest is as it was\n",
					id, plan.Summary.Acted(), plural(plan.Summary.ToDo, "item", "items"))
				return nil
			})
		},
	}
	d.add(cmd)
	return cmd
}

func (s *shell) replayListCommand() *cobra.Command {
	var f listFlags
	states := []string{"planning", "planned", "running", "cancelled", "done", "expired"}
	cmd := &cobra.Command{
		Use: "list", Short: "List replays, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := f.parse(states); err != nil {
				return err
			}
			return listPages(s, cmd, &f.pageFlags, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[control.Replay], error) {
				return control.Call(ctx, caller, &control.ListReplays, control.ListReplaysRequest{PageRequest: p, State: f.state})
			}, s.replayTable, replayEntry)
		},
	}
	cmd.Flags().StringVar(&f.state, "state", "", "only this state: "+strings.Join(states, ", "))
	f.pageFlags.add(cmd)
	return cmd
}

func (s *shell) replayTable(rows []control.Replay) *table {
	t := &table{
		header: []string{"PLANNED", "STATE", "ITEMS", "TO DO", "ACTED", "ACTOR", "REASON", "ONLY", "ID"},
		spare:  []string{"REASON", "ACTOR", "ITEMS", "ONLY"}, ids: []string{"ID"}, whole: []string{"PLANNED", "STATE"},
	}
	for i := range rows {
		r := &rows[i]
		t.add(s.tableClock(r.CreatedAt), string(r.State), fmt.Sprint(r.Summary.Items), fmt.Sprint(r.Summary.ToDo), fmt.Sprint(r.Summary.Acted()), r.Actor, r.Reason, r.Scope.OfRun(), r.ID.String())
	}
	return t
}

func replayEntry(r *control.Replay) listEntry {
	return listEntry{IDs: map[string]string{kindReplay: r.ID.String()}, Name: string(r.State)}
}

func (s *shell) replayItemsCommand() *cobra.Command {
	var r control.ListReplayItemsRequest
	var pages pageFlags
	var verdict, outcome string
	cmd := &cobra.Command{
		Use: "items <plan>", Short: "List the items of a replay, in the order in which they run", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if r.ID, err = parseReplay(args[0]); err != nil {
				return err
			}
			if err := pages.check(); err != nil {
				return err
			}
			if err := s.checkView(itemTable(nil), &pages, cmd); err != nil {
				return err
			}
			if r.Verdict = replay.Verdict(verdict); verdict != "" && !slices.Contains(replay.Verdicts(), r.Verdict) {
				return usagef("--verdict %q is unknown; known are %s", clean(verdict), joined(replay.Verdicts()))
			}
			if r.Outcome = replay.ItemOutcome(outcome); outcome != "" && !slices.Contains(replay.ItemOutcomes(), r.Outcome) {
				return usagef("--outcome %q is unknown; known are %s", clean(outcome), joined(replay.ItemOutcomes()))
			}
			return listPages(s, cmd, &pages, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[control.ReplayItem], error) {
				r.PageRequest = p
				return control.Call(ctx, caller, &control.ListReplayItems, r)
			}, itemTable, itemEntry)
		},
	}
	cmd.Flags().StringVar(&verdict, "verdict", "", "only this verdict: "+joined(replay.Verdicts()))
	cmd.Flags().StringVar(&outcome, "outcome", "", "only this outcome: "+joined(replay.ItemOutcomes()))
	cmd.Flags().BoolVar(&r.Open, "open", false, "only those that a run has not acted on yet")
	pages.add(cmd)
	return cmd
}

func joined[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

func itemTable(items []control.ReplayItem) *table {
	t := &table{
		header: []string{"POSITION", "SOURCE", "TYPE", "EVENT ID", "ROUTE", "TARGET", "ACTION", "VERDICT", "OUTCOME", "STATE", "EFFECT"},
		spare:  []string{"TARGET", "TYPE", "STATE", "POSITION"}, ids: []string{"EVENT ID", "EFFECT"}, whole: []string{"ACTION", "VERDICT"},
	}
	for i := range items {
		it := &items[i]
		effect := ""
		if it.Effect != nil {
			effect = it.Effect.String()
		}
		outcome := string(it.Outcome)
		if it.Detail != "" {
			outcome += " (" + it.Detail + ")"
		}
		t.add(fmt.Sprint(it.Position), it.Source, it.Type, it.EventID, it.Route, it.Target, would(it.Action, it.LeftOut), string(it.Verdict), outcome, it.State, effect)
	}
	return t
}

func itemEntry(it *control.ReplayItem) listEntry {
	ids := map[string]string{kindEvent: it.Event.String()}
	if it.Effect != nil {
		ids[kindEffect] = it.Effect.String()
	}
	return listEntry{IDs: ids, Name: it.Source + "/" + it.EventID + " " + it.Route}
}

// would describes what a run does with an item.
func would(action replay.Action, leftOut replay.LeftOut) string {
	if action == replay.ActionNone {
		return "left out: " + string(leftOut)
	}
	return string(action)
}
