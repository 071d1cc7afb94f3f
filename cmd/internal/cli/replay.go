package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) replayCommand() *cobra.Command {
	return group("replay", "Plan, run, watch or cancel replays",
		s.replayPlanCommand(), s.replayRunCommand(), s.replayStatusCommand(), s.replayCancelCommand(), s.replayListCommand(), s.replayItemsCommand())
}

// withReplays opens the database for one command about replays.
func (s *shell) withReplays(cmd *cobra.Command, do func(*replay.Store) error) error {
	return s.withJudge(cmd, func(context.Context, *pgxpool.Pool) (replay.Judge, error) { return nil, nil }, do)
}

// withPlanner is withReplays for a command that plans: it reads the configuration
// too, to say what would be sent today. That of `oncegate dev` is its own, and its
// plans go without.
func (s *shell) withPlanner(cmd *cobra.Command, do func(*replay.Store) error) error {
	cfg, err := s.loadConfig()
	if err != nil {
		if _, dev := s.readDevState(); dev && s.configFile == "" && s.env("ONCEGATE_CONFIG") == "" && s.env("DATABASE_URL") == "" {
			return s.withReplays(cmd, do)
		}
		return err
	}
	return s.withJudge(cmd, func(ctx context.Context, pool *pgxpool.Pool) (replay.Judge, error) {
		keys, err := s.keyring()
		if err != nil {
			return nil, err
		}
		judge, err := app.NewJudge(ctx, app.JudgeConfig{Settings: cfg, Pool: pool, Keyring: keys, Logger: newLogger(s, cfg.Log)})
		if err != nil {
			return nil, err
		}
		for _, route := range judge.Unregistered {
			fmt.Fprintf(s.err, "oncegate: no server has been started with route %s yet: nothing is planned for it\n", clean(route))
		}
		for _, route := range judge.Stale {
			fmt.Fprintf(s.err, "oncegate: route %s is not what the servers were started with: restart them before the replay is run\n", clean(route))
		}
		return judge, nil
	}, do)
}

// planConnections let four judge at once. Whatever does not plan opens fewer.
const planConnections = 10

func (s *shell) withJudge(cmd *cobra.Command, judging func(context.Context, *pgxpool.Pool) (replay.Judge, error), do func(*replay.Store) error) error {
	return s.withPool(cmd.Context(), planConnections, func(pool *pgxpool.Pool, keys *seal.Keyring) error {
		judge, err := judging(cmd.Context(), pool)
		if err != nil {
			return err
		}
		store, err := app.NewStore(pool, keys)
		if err != nil {
			return err
		}
		replays, err := replay.New(replay.Config{Pool: pool, Store: store, Judge: judge})
		if err != nil {
			return err
		}
		return do(replays)
	})
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
		Long: "Run a planned replay. It does exactly what was planned, and acts on an effect only if the effect\n" +
			"is still as it was then. The workers carry it out behind live deliveries. --digest is what the\n" +
			"plan printed, or its first 8 characters; on a terminal the command asks for it. If the replay runs\n" +
			"already, the command wakes it in case its job was lost.",
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
			return s.withReplays(cmd, func(replays *replay.Store) error {
				plan, err := replays.Status(cmd.Context(), id)
				if err != nil {
					return err
				}
				return s.runReplay(cmd, replays, plan, replay.StartRequest{ID: id, Digest: digest, Actor: d.actor, Reason: d.reason, Rate: rate}, d, follow)
			})
		},
	}
	d.add(cmd)
	cmd.Flags().StringVar(&digest, "digest", "", "the digest that the plan printed")
	cmd.Flags().Float32Var(&rate, "rate", 0, "items a second at most; 0 is as many as it can beside deliveries")
	cmd.Flags().BoolVar(&follow, "follow", false, "show how far it is until the effects are done, and not only queued")
	return cmd
}

// runReplay starts a plan that somebody has seen.
func (s *shell) runReplay(cmd *cobra.Command, replays *replay.Store, plan *replay.Replay, start replay.StartRequest, d decision, follow bool) error {
	if plan.State == replay.Planned && start.Digest == "" && !d.yes {
		if !s.interactive() {
			return usagef("nobody can be asked here: add the --digest that the plan printed, or --yes")
		}
		if err := s.confirm(d, plan.Digest[:replay.MinDigest], func() { s.showSummary(s.err, plan) }); err != nil {
			return err
		}
		start.Digest = plan.Digest
	}
	was := plan.State
	plan, err := replays.Start(cmd.Context(), start)
	switch {
	case errors.Is(err, replay.ErrDigest):
		return &failure{text: oneLine(err.Error()) + "; look at it again with `oncegate replay status " + start.ID.String() + "`"}
	case err != nil:
		return err
	}
	if follow {
		return s.follow(cmd, replays, plan)
	}
	if s.output == "json" {
		return s.json(plan)
	}
	verb := "runs now"
	if was == replay.Running {
		verb = "is running already, and was woken"
	}
	fmt.Fprintf(s.out, "replay %s %s; `oncegate replay status %s --follow` shows how far it is\n", plan.ID, verb, plan.ID)
	return nil
}

func (s *shell) replayCancelCommand() *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "cancel <plan>", Short: "Cancel a replay; what is not done stays as it was", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseReplay(args[0])
			if err != nil {
				return err
			}
			if err := d.check(s, "why is it cancelled?"); err != nil {
				return err
			}
			return s.withReplays(cmd, func(replays *replay.Store) error {
				plan, err := replays.Cancel(cmd.Context(), replay.CancelRequest{ID: id, Actor: d.actor, Reason: d.reason})
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
			_, last, err := f.parse(states)
			if err != nil {
				return err
			}
			return s.withReplays(cmd, func(replays *replay.Store) error {
				return showList(s, cmd, &f.pageFlags, listing[replay.Replay]{draw: s.replayTable, entry: replayEntry, page: func(p control.PageRequest) (page inbox.Page[replay.Replay], err error) {
					return replays.List(cmd.Context(), replay.Filter{State: replay.State(f.state), Cursor: p.After, Before: last, Limit: p.Limit})
				}})
			})
		},
	}
	cmd.Flags().StringVar(&f.state, "state", "", "only this state: "+strings.Join(states, ", "))
	f.addPage(cmd)
	return cmd
}

func (s *shell) replayTable(rows []replay.Replay) *table {
	t := &table{
		header: []string{"PLANNED", "STATE", "ITEMS", "TO DO", "ACTED", "ACTOR", "REASON", "ID"},
		spare:  []string{"REASON", "ACTOR", "ITEMS"}, ids: []string{"ID"}, whole: []string{"PLANNED", "STATE"},
	}
	for i := range rows {
		r := &rows[i]
		t.add(s.tableClock(r.CreatedAt), string(r.State), fmt.Sprint(r.Summary.Items), fmt.Sprint(r.Summary.ToDo), fmt.Sprint(r.Summary.Acted()), r.Actor, r.Reason, r.ID.String())
	}
	return t
}

func replayEntry(r *replay.Replay) listEntry {
	return listEntry{IDs: map[string]string{kindReplay: r.ID.String()}, Name: string(r.State)}
}

func (s *shell) replayItemsCommand() *cobra.Command {
	var f replay.ItemFilter
	var pages pageFlags
	var verdict, outcome string
	cmd := &cobra.Command{
		Use: "items <plan>", Short: "List the items of a replay, in the order in which they run", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseReplay(args[0])
			if err != nil {
				return err
			}
			if err := pages.check(); err != nil {
				return err
			}
			if err := s.checkView(itemTable(nil), &pages, cmd); err != nil {
				return err
			}
			if f.Verdict = replay.Verdict(verdict); verdict != "" && !slices.Contains(replay.Verdicts(), f.Verdict) {
				return usagef("--verdict %q is unknown; known are %s", clean(verdict), joined(replay.Verdicts()))
			}
			if f.Outcome = replay.ItemOutcome(outcome); outcome != "" && !slices.Contains(replay.ItemOutcomes(), f.Outcome) {
				return usagef("--outcome %q is unknown; known are %s", clean(outcome), joined(replay.ItemOutcomes()))
			}
			return s.withReplays(cmd, func(replays *replay.Store) error {
				if _, err := replays.Status(cmd.Context(), id); err != nil {
					return err
				}
				return showList(s, cmd, &pages, listing[replay.Item]{draw: itemTable, entry: itemEntry, page: func(p control.PageRequest) (page inbox.Page[replay.Item], err error) {
					f.Limit = p.Limit
					if f.Cursor, f.After, err = numberCursor(p.After); err != nil {
						return page, err
					}
					return replays.Items(cmd.Context(), id, f)
				}})
			})
		},
	}
	cmd.Flags().StringVar(&verdict, "verdict", "", "only this verdict: "+joined(replay.Verdicts()))
	cmd.Flags().StringVar(&outcome, "outcome", "", "only this outcome: "+joined(replay.ItemOutcomes()))
	cmd.Flags().BoolVar(&f.Open, "open", false, "only those that a run has not acted on yet")
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

func itemTable(items []replay.Item) *table {
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

func itemEntry(it *replay.Item) listEntry {
	ids := map[string]string{kindEvent: it.Event.String()}
	if it.Effect != nil {
		ids[kindEffect] = it.Effect.String()
	}
	return listEntry{IDs: ids, Name: it.Source + "/" + it.EventID + " " + it.Route}
}

// would says what a run does with an item.
func would(action replay.Action, leftOut replay.LeftOut) string {
	if action == replay.ActionNone {
		return "left out: " + string(leftOut)
	}
	return string(action)
}
