package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/move"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/migrations"
)

func (s *shell) sourcesMoveCommand() *cobra.Command {
	var to string
	var wait time.Duration
	var d decision
	cmd := &cobra.Command{
		Use: "move <source>", Short: "Move a source to another database while the servers run", Args: cobra.ExactArgs(1),
		Long: "Move a source to another database of the configuration while the servers run. The keys of its events are\n" +
			"copied first, so that the other database recognises every delivery that the first one has recorded. Then the\n" +
			"first database refuses deliveries of the source, for about a second they are answered 503, and the other one\n" +
			"takes them. Recorded events stay where they are, and the first database completes their effects. Routes that\n" +
			"are ordered or have keys wait for that in the other database, so that the order is kept.\n\n" +
			"You can interrupt the command at any time: run it again to continue. It exits with 75 if it was interrupted,\n" +
			"or if effects of the first database have not ended after --wait. Afterwards, write the database into the\n" +
			"configuration.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return usagef("--to is missing: the name of the database")
			}
			if wait < 0 {
				return usagef("--wait %s: must not be negative", wait)
			}
			if err := d.check(s, "Why is the source moved?"); err != nil {
				return err
			}
			return s.moveSource(cmd.Context(), args[0], to, wait, d)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the database to which the source moves; required")
	cmd.Flags().DurationVar(&wait, "wait", time.Hour, "how long to wait for effects of the first database once the other one takes the deliveries")
	d.addExplanation(cmd)
	return cmd
}

// moved is the result of a move.
type moved struct {
	Source string `json:"source"`
	From   string `json:"from,omitempty"`
	To     string `json:"to"`
	move.Progress
}

// moveSource moves the source and says how that ended.
func (s *shell) moveSource(ctx context.Context, source, to string, wait time.Duration, d decision) error {
	whole, err := s.load()
	if err != nil {
		return err
	}
	if s.databaseName != "" {
		return usagef("leave --database out: the source says where it is, and --to where it goes")
	}
	out := moved{Source: source, To: to}
	if out.From, err = s.moveFrom(ctx, whole, source, to); err != nil {
		return err
	}
	if out.From == to {
		out.Step = move.StepSettled
		return s.showMoved(out)
	}
	part, err := s.of(out.From).loadWhole(ctx) // with the sources that are stored there
	if err != nil {
		return err
	}
	for _, cfg := range []*config.Config{whole, part} {
		if err := checkMove(cfg, source); err != nil {
			return err
		}
	}
	var pools [2]*pgxpool.Pool
	for i, name := range []string{out.From, to} {
		if pools[i], err = s.of(name).openPool(ctx); err != nil {
			return err
		}
		defer pools[i].Close()
		if err := migrations.Validate(ctx, pools[i]); err != nil {
			return fmt.Errorf("database %s: %w", name, err)
		}
	}
	keys, err := s.keyring()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bar := s.progress(-1, "copying keys")
	patience := (*time.Timer)(nil)
	step := move.Move{
		From: move.Database{Name: out.From, Pool: pools[0]}, To: move.Database{Name: to, Pool: pools[1]}, Source: source,
		Keys: keys, Actor: d.actor, Reason: d.reason,
		Report: func(p move.Progress) {
			bar.total(p.Total)
			bar.doing(stepText(p, out.From, to), p.Keys)
			if p.Step == move.StepOpen && patience == nil {
				patience = time.AfterFunc(wait, func() { cancel(errMoveWaits) })
			}
		},
	}
	out.Progress, err = step.Run(ctx)
	bar.done()
	if patience != nil {
		patience.Stop()
	}
	if err != nil && ctx.Err() != nil {
		return errorf(errorcode.Unfinished, "%s: run the command again to continue", stepText(out.Progress, out.From, to))
	}
	if err != nil {
		return moveError(err)
	}
	return s.showMoved(out)
}

var errMoveWaits = errors.New("effects of the first database have not ended")

// stepText says in a few words how far a move is.
func stepText(p move.Progress, from, to string) string {
	switch p.Step {
	case move.StepCopying, "":
		return "copying the keys of " + from
	case move.StepClosed:
		return from + " is closed, and " + to + " is about to open"
	case move.StepOpen, move.StepSettled:
	}
	return to + " takes the deliveries; its ordered routes wait for " + count(int(p.Unfinished), "effect") + " in " + from
}

// moveFrom returns the database in which the source lives, or which it is leaving for to.
func (s *shell) moveFrom(ctx context.Context, whole *config.Config, source, to string) (string, error) {
	names := whole.DatabaseNames()
	if whole.Part(to) == nil {
		return "", usagef("--to %s: no database has that name; those of the configuration are %s", clean(to), strings.Join(names, ", "))
	}
	known := map[string]*app.Registered{}
	for _, name := range names {
		found, err := app.RegisteredSources(ctx, whole.Part(name))
		if err != nil {
			return "", fmt.Errorf("database %s: %w", name, err)
		}
		known[name] = found
		if r, moves := found.Moves[source]; moves && r.Leaves && r.Other == to && r.Step != move.StepSettled {
			return name, nil
		}
	}
	for _, name := range names {
		r, moves := known[name].Moves[source]
		switch {
		case !known[name].Has(source):
		case name == to && moves && r.Step != move.StepSettled:
			return r.Other, nil // the last step of a move that was interrupted
		default:
			return name, nil
		}
	}
	return "", errorf(errorcode.UnknownSource, "no database has a source %s; `oncegate sources list` shows them", clean(source))
}

// checkMove refuses a source that has to stay in its database.
func checkMove(whole *config.Config, source string) error {
	for _, c := range whole.Sources {
		if c.Name != source {
			continue
		}
		switch {
		case c.Provider != nil && c.Provider.IsOperation():
			return errorf(errorcode.WrongState, "source %s cannot move: its callers ask for results of operations, which its database has", clean(source))
		case whole.Buffer.Always() && whole.Buffers(c) && c.OrdersArrival():
			return errorf(errorcode.WrongState, "source %s cannot move while the buffer has its deliveries in the order of arrival: set buffer.when to unavailable, reload the servers, and move it then", clean(source))
		}
	}
	return nil
}

// moveError returns an error of a move with its code.
func moveError(err error) error {
	for _, of := range []error{move.ErrUnknown, move.ErrOccupied, move.ErrSecrets, move.ErrUndecided, move.ErrStays, move.ErrOther, move.ErrRunning} {
		if errors.Is(err, of) {
			return errorf(errorcode.WrongState, "%v", err)
		}
	}
	return err
}

func (s *shell) showMoved(out moved) error {
	if s.output == "json" {
		return s.json(out)
	}
	if out.From == out.To {
		return s.print("source %s lives in the database %s already", clean(out.Source), out.To)
	}
	return s.print("source %s lives in the database %s now (%s copied); write `database: %s` at the source in the configuration",
		clean(out.Source), out.To, count(int(out.Keys), "key"), out.To)
}
