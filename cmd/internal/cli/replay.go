package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
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
	cfg, err := s.loadWhole(context.Background())
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
	var r control.RunReplayRequest
	var follow bool
	cmd := &cobra.Command{
		Use: "run <plan>", Short: "Run a planned replay", Args: cobra.ExactArgs(1),
		Long: "Run a planned replay. It runs the planned items, except effects that have changed since. The workers\n" +
			"prefer live deliveries. --digest is what the plan printed, or its first 8 characters; on a terminal the\n" +
			"command asks for it. If the replay runs already, the command wakes it in case its job was lost.",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.ID, err = parseReplay(args[0]); err != nil {
				return err
			}
			if err := d.check(s, control.RunReplay.Why); err != nil {
				return err
			}
			if err := checkRate(r.Rate); err != nil {
				return err
			}
			r.Reason = d.reason
			return s.control(cmd.Context(), d.actor, func(caller control.Caller) error {
				plan, err := control.Call(cmd.Context(), caller, &control.ShowReplay, control.IDRequest{ID: r.ID})
				if err != nil {
					return err
				}
				return s.runReplay(cmd.Context(), caller, &plan.Replay, r, d, follow)
			})
		},
	}
	requestFlags(cmd, &r)
	d.add(cmd)
	cmd.Flags().BoolVar(&follow, "follow", false, "show how far it is until the effects are done, and not only queued")
	return cmd
}

func checkRate(rate float32) error {
	if rate < 0 || rate > 1e6 {
		return usagef("--rate %g: must be from 0 to 1000000 items a second", rate)
	}
	return nil
}

// runReplay starts a plan that the user has seen.
func (s *shell) runReplay(ctx context.Context, caller control.Caller, plan *replay.Replay, start control.RunReplayRequest, d decision, follow bool) error {
	switch {
	case plan.State == replay.Planning:
		return errorf(errorcode.WrongState, "replay %s is still being planned: run it when `oncegate replay status %s` says that it is planned", plan.ID, plan.ID)
	case plan.State == replay.Planned && start.Digest == "" && !d.yes:
		if !s.interactive() {
			return errorf(errorcode.ConfirmationMissing, "there is no terminal to ask at: add the --digest that the plan printed, or --yes")
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
		return failf(operationCode(problemCode(err)), "%s", oneLine(err.Error())+"; look at it again with `oncegate replay status "+start.ID.String()+"`")
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
	d := newDecision(s, &control.CancelReplay, &cobra.Command{
		Use: "cancel <plan>", Short: "Cancel a replay; its remaining effects do not change", Args: cobra.ExactArgs(1),
	})
	d.addYes(d.Command) // accepted, although there is nothing to confirm
	d.check = func(args []string) (err error) {
		d.request.ID, err = parseReplay(args[0])
		return err
	}
	d.done = func(plan *replay.Replay) error {
		return s.print("replay %s is cancelled: %d of %s had been acted on, the rest is as it was", plan.ID, plan.Summary.Acted(), plural(plan.Summary.ToDo, "item", "items"))
	}
	return d.Command
}

func (s *shell) replayListCommand() *cobra.Command {
	list := newList(s, &control.ListReplays, &replayColumns, &cobra.Command{
		Short: "List replays, newest first",
		Long: "List replays, newest first. A replay is queued once every item was taken, and done when its effects have\n" +
			"ended: OPEN counts those that have not, and DEAD those that died again.",
	})
	restrict(list.Command, "state", texts(replay.States()))
	return list.Command
}

var replayColumns = columns[control.Replay]{
	header: []string{"PLANNED", "STATE", "ITEMS", "TO DO", "ACTED", "OPEN", "DEAD", "ACTOR", "REASON", "ONLY", "ID"},
	spare:  []string{"REASON", "ACTOR", "ITEMS", "ONLY", "DEAD"}, ids: []string{"ID"}, whole: []string{"PLANNED", "STATE"},
	cells: func(r *control.Replay) []any {
		open, dead := "", "" // the effects of a replay that has ended are not counted
		if r.Effects != nil {
			open, dead = fmt.Sprint(r.Effects.Open), fmt.Sprint(r.Effects.Dead)
		}
		return []any{r.CreatedAt, r.State, r.Summary.Items, r.Summary.ToDo, r.Summary.Acted(), open, dead, r.Actor, r.Reason, r.Scope.OfRun(), r.ID}
	},
	entry: func(r *control.Replay) listEntry {
		return listEntry{IDs: map[string]string{kindReplay: r.ID.String()}, Name: string(r.State)}
	},
}

func (s *shell) replayItemsCommand() *cobra.Command {
	list := newList(s, &control.ListReplayItems, &replayItemColumns, &cobra.Command{
		Use: "items <plan>", Short: "List the items of a replay, in the order in which they run", Args: cobra.ExactArgs(1),
	})
	restrict(list.Command, "verdict", texts(replay.Verdicts()))
	restrict(list.Command, "outcome", texts(replay.ItemOutcomes()))
	list.check = func(args []string) (err error) {
		list.request.ID, err = parseReplay(args[0])
		return err
	}
	return list.Command
}

var replayItemColumns = columns[control.ReplayItem]{
	header: []string{"POSITION", "SOURCE", "TYPE", "EVENT ID", "ROUTE", "TARGET", "ACTION", "VERDICT", "OUTCOME", "STATE", "EFFECT"},
	spare:  []string{"TARGET", "TYPE", "STATE", "POSITION"}, ids: []string{"EVENT ID", "EFFECT"}, whole: []string{"ACTION", "VERDICT"},
	cells: func(it *control.ReplayItem) []any {
		outcome := string(it.Outcome)
		if it.Detail != "" {
			outcome += " (" + it.Detail + ")"
		}
		return []any{it.Position, it.Source, it.Type, it.EventID, it.Route, it.Target, would(it.Action, it.LeftOut), it.Verdict, outcome, it.State, it.Effect}
	},
	entry: func(it *control.ReplayItem) listEntry {
		ids := map[string]string{kindEvent: it.Event.String()}
		if it.Effect != nil {
			ids[kindEffect] = it.Effect.String()
		}
		return listEntry{IDs: ids, Name: it.Source + "/" + it.EventID + " " + it.Route}
	},
}

// texts returns words of a string type as strings.
func texts[T ~string](words []T) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

func joined[T ~string](words []T) string { return strings.Join(texts(words), ", ") }

// would describes what a run does with an item.
func would(action replay.Action, leftOut replay.LeftOut) string {
	if action == replay.ActionNone {
		return "left out: " + string(leftOut)
	}
	return string(action)
}
