package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/control"
)

// eraseLabelFlags are the flags of erase that find events by a label.
type eraseLabelFlags struct {
	label, digest string
	most          int
	dryRun        bool
}

func (f *eraseLabelFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.label, "label", "", "all events with this label: 'name=value' or a value alone")
	flags.IntVar(&f.most, "max", decide.DefaultDiscards, "with --label: do nothing if more match")
	flags.StringVar(&f.digest, "digest", "", "with --label: the first "+strconv.Itoa(replay.MinDigest)+" or more characters of the digest that a dry run printed; instead of --yes")
	flags.BoolVar(&f.dryRun, "dry-run", false, "with --label: count them and change nothing")
}

func (f *eraseLabelFlags) check(key string) error {
	switch {
	case f.label == "" && (f.dryRun || f.digest != ""):
		return usagef("--dry-run and --digest go with --label")
	case f.label != "" && key != "":
		return usagef("--key and --label: name one event by its key, or many by a label")
	case f.digest != "" && len(f.digest) < replay.MinDigest:
		return usagef("--digest: give at least its first %d characters", replay.MinDigest)
	}
	return checkMax(f.most)
}

// eraseLabel finds the events with a label, shows them with the digest of the whole set, and erases these and no others, in batches.
func (s *shell) eraseLabel(ctx context.Context, f eraseLabelFlags, source string, d decision) error {
	interrupted, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !f.dryRun {
		if err := d.check(s, control.EraseEvents.Why); err != nil {
			return err
		}
	}
	d.yes = d.yes || f.digest != ""
	return s.controlWith(ctx, onDatabase{actor: d.actor, changes: !f.dryRun}, func(caller control.Caller) error {
		var sum prune.ErasedMany
		var found control.ErasedEvents
		matched, err := s.decideMany(d, f.dryRun, control.EraseEvents.Confirm, "erasing", func() {
			eraseGroupColumns.table(s, found.Groups).write(s.err, s.width())
			s.warn("This cannot be undone.")
		}, func(seen control.Seen) (batch, error) {
			request, within := control.EraseEventsRequest{Explained: control.Explained{Reason: d.reason}, Seen: seen}, ctx
			switch {
			case seen == "":
				request, within = control.EraseEventsRequest{Label: f.label, Source: source, Max: f.most, DryRun: true}, interrupted
			case interrupted.Err() != nil:
				return batch{}, nil //nolint:nilerr // the user interrupted it, and the caller shows the counts so far
			}
			out, err := control.Call(within, caller, &control.EraseEvents, request)
			if err != nil {
				return batch{}, tooMany(err, f.most)
			}
			if seen == "" {
				found = out
				if !strings.HasPrefix(found.Digest, strings.ToLower(f.digest)) {
					return batch{}, failf(operationCode(control.CodeDigest), "other events have the label than when the digest was made; nothing was erased: look at them again with --dry-run")
				}
			}
			sum = prune.ErasedMany{
				Erased: sum.Erased + out.Erased, InFlight: sum.InFlight + out.InFlight, Gone: sum.Gone + out.Gone, Admitted: append(sum.Admitted, out.Admitted...),
			}
			return batch{out.Matched, out.Left, out.Seen}, nil
		})
		switch {
		case err != nil:
			return err
		case f.dryRun:
			return s.printErasable(found)
		}
		return s.showErasedMany(sum, matched-sum.Handled())
	})
}

// printErasable prints the result of a dry run.
func (s *shell) printErasable(found control.ErasedEvents) error {
	if s.output == "json" {
		found.Seen = "" // it is for the API
		return s.json(found)
	}
	if found.Matched > 0 {
		eraseGroupColumns.table(s, found.Groups).write(s.out, s.width())
		return s.print("%s would be erased; digest %s", plural(found.Matched, "event", "events"), found.Digest[:2*replay.MinDigest])
	}
	return s.print("no event has the label")
}

func (s *shell) showErasedMany(out prune.ErasedMany, rest int) error {
	if s.output == "json" {
		if err := s.json(out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(s.out, "%s erased\n", plural(out.Erased, "event", "events"))
		if out.Gone > 0 {
			fmt.Fprintf(s.out, "%d were gone before their turn came\n", out.Gone)
		}
		for _, key := range out.Admitted {
			_ = s.print("A payload that conflicted with one of them was admitted as %s, which keeps its content: erase it too.", key)
		}
		fmt.Fprintln(s.out, "Refused deliveries have no labels: `oncegate refusals erase --containing` finds them by a text.")
	}
	switch {
	case rest > 0:
		return errorf(errorcode.Unfinished, "interrupted: %s not looked at; the same command continues with them", plural(rest, "event was", "events were"))
	case out.InFlight > 0:
		return errorf(errorcode.Unfinished, "%s an effect that is not at rest, and kept its content: run the command again when it is", plural(out.InFlight, "event has", "events have"))
	}
	return nil
}

var eraseGroupColumns = columns[control.EraseGroup]{
	header: []string{"EVENTS", "SOURCE", "TYPE", "FIRST", "LAST"}, whole: []string{"EVENTS", "FIRST", "LAST"},
	cells: func(g *control.EraseGroup) []any { return []any{g.Count, g.Source, g.Type, g.First, g.Last} },
}
