package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) streamsSkipCommand() *cobra.Command {
	return s.streamPassCommand(&control.SkipStream, inbox.StreamSkip, "skip <id | source/route/key | effect id>", "Give up what a stream, or one held effect, waits for",
		"Give up what one stream waits for. If numbers are missing, they are given up and are late if they still\n"+
			"arrive. Otherwise the effect that blocks the stream, or the effects that are held for a person, are\n"+
			"skipped and never happen. With the id of an effect, only that one, which must be held for a person.")
}

func (s *shell) streamsUnblockCommand() *cobra.Command {
	return s.streamPassCommand(&control.UnblockStream, inbox.StreamUnblock, "unblock <id | source/route/key>", "Release the effects that wait for a dead letter",
		"Release the effects that wait for the effect that blocks a stream. The blocking effect does not\n"+
			"change; if you replay it later, it runs after the others.")
}

// streamDecision is an operation that decides about a stream.
type streamDecision = control.Operation[control.DecideStreamRequest, control.StreamPassed]

func (s *shell) streamPassCommand(operation *streamDecision, as inbox.StreamPass, use, short, long string) *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		Long: long + "\n\nOn a terminal you type the decision; elsewhere the command needs --yes. The decision is audited.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.check(s, "why may the stream continue without it?"); err != nil {
				return err
			}
			if id, err := inbox.ParseID(args[0]); err == nil {
				if as != inbox.StreamSkip {
					return usagef("%s is an effect's id: to let it run type `oncegate streams apply %s`, else name its stream", args[0], args[0])
				}
				return s.decideEffect(cmd.Context(), &control.SkipEffect, id, d)
			}
			return s.decideStream(cmd.Context(), operation, args[0], string(as), d)
		},
	}
	d.add(cmd)
	return cmd
}

// decideStream shows what a stream waits for and asks for confirmation. The decision applies only
// if the stream has not changed since.
func (s *shell) decideStream(ctx context.Context, operation *streamDecision, ref, word string, d decision) error {
	return s.controlWith(ctx, onDatabase{actor: d.actor, changes: true}, func(caller control.Caller) error {
		would, err := control.Call(ctx, caller, operation, control.DecideStreamRequest{Ref: ref, DryRun: true})
		if problem, ok := errors.AsType[*control.Problem](err); ok && problem.Code == control.CodeConflict && operation == &control.ApplyStream {
			return &failure{text: clean(problem.Error()) + "; see `oncegate streams list --undecided`"}
		}
		if err != nil {
			return err
		}
		ref := strconv.FormatInt(would.Stream, 10)
		if !d.yes && s.interactive() {
			if err := s.showDecision(ctx, caller, ref, &would); err != nil {
				return err
			}
		}
		if err := s.confirm(d, word, func() {}); err != nil {
			return err
		}
		out, err := control.Call(ctx, caller, operation, control.DecideStreamRequest{
			Match: control.Match{IfMatch: would.Tag}, Explained: control.Explained{Reason: d.reason}, Ref: ref,
		})
		if err != nil {
			return err
		}
		if len(out.Effects) > 0 {
			return s.showDecided(control.DecidedEffects{Ended: out.Ended, As: inbox.UndecidedEnd(out.Passed), Effects: out.Effects})
		}
		if s.output == "json" {
			return s.json(out)
		}
		fmt.Fprintf(s.out, "stream %d continues: %s\n", out.Stream, out.What)
		return nil
	})
}

// showDecision shows the effects or the stream to which a decision applies.
func (s *shell) showDecision(ctx context.Context, caller control.Caller, ref string, would *control.StreamPassed) error {
	if len(would.Effects) > 0 {
		page, err := control.Call(ctx, caller, &control.ListUndecided, control.ListUndecidedRequest{Stream: would.Stream, Limit: inbox.MaxHeld})
		if err != nil {
			return err
		}
		undecidedColumns.table(s, page.Data).write(s.err, s.width())
		return nil
	}
	stream, err := control.Call(ctx, caller, &control.ShowStream, control.StreamReference{Ref: ref})
	if err != nil {
		return err
	}
	page(s.err, streamPairs(stream))
	return nil
}
