package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) streamsSkipCommand() *cobra.Command {
	return s.streamDecision(&control.SkipStream, &control.SkipEffect, &cobra.Command{
		Use: "skip <id | source/route/key | effect id>", Short: "Give up what a stream, or one held effect, waits for",
		Long: "Give up what one stream waits for. If numbers are missing, they are given up and are late if they still\n" +
			"arrive. Otherwise the effect that blocks the stream, or the effects that are held for a person, are\n" +
			"skipped and never happen. With the id of an effect, only that one, which must be held for a person.\n\n" + streamAsks,
	})
}

func (s *shell) streamsUnblockCommand() *cobra.Command {
	return s.streamDecision(&control.UnblockStream, nil, &cobra.Command{
		Use: "unblock <id | source/route/key>", Short: "Release the effects that wait for a dead letter",
		Long: "Release the effects that wait for the effect that blocks a stream. The blocking effect does not\n" +
			"change; if you replay it later, it runs after the others.\n\n" + streamAsks,
	})
}

const streamAsks = "On a terminal you type the decision; elsewhere the command needs --yes. The decision is audited."

// An operation that decides about a stream, or about one effect that is held for an operator.
type (
	decideStream = control.Operation[control.DecideStreamRequest, control.StreamPassed]
	decideEffect = control.Operation[control.DecideEffectRequest, control.DecidedEffects]
)

// streamDecision returns a command that decides about a stream, or with effect about one held effect. It shows what the
// stream waits for and asks for confirmation. The decision applies only if the stream has not changed since.
func (s *shell) streamDecision(operation *decideStream, effect *decideEffect, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	d := newDecision(s, operation, cmd)
	stream := d.Command.RunE
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		d.request.Ref = args[0]
		id, err := inbox.ParseID(args[0])
		switch {
		case err != nil:
			return stream(cmd, args)
		case effect == nil:
			return usagef("%s is an effect's id: to let it run type `oncegate streams apply %s`, else name its stream", args[0], args[0])
		}
		return s.decideEffect(cmd.Context(), effect, id, &d.decision)
	}
	d.on.changes = true
	d.facts = func(ctx context.Context, caller control.Caller) (show func(), err error) {
		would, err := control.Call(ctx, caller, operation, control.DecideStreamRequest{Ref: d.request.Ref, DryRun: true})
		if problemCode(err) == control.CodeConflict && operation == &control.ApplyStream {
			return nil, failf(operationCode(problemCode(err)), "%s", clean(control.ProblemOf(err).Error())+"; see `oncegate streams list --undecided`")
		}
		d.request.Ref, d.request.IfMatch = strconv.FormatInt(would.Stream, 10), would.Tag
		if err == nil && !d.yes && s.interactive() {
			err = s.showDecision(ctx, caller, d.request.Ref, &would)
		}
		return nothing, err
	}
	d.json = true // effects have another form
	d.done = func(out *control.StreamPassed) error {
		switch {
		case len(out.Effects) > 0:
			return s.showDecided(control.DecidedEffects{Ended: out.Ended, As: decide.UndecidedEnd(out.Passed), Effects: out.Effects})
		case s.output == "json":
			return s.json(out)
		}
		return s.print("stream %d continues: %s", out.Stream, out.What)
	}
	return cmd
}

// showDecision shows the effects or the stream to which a decision applies.
func (s *shell) showDecision(ctx context.Context, caller control.Caller, ref string, would *control.StreamPassed) error {
	if len(would.Effects) > 0 {
		page, err := control.Call(ctx, caller, &control.ListUndecided, control.ListUndecidedRequest{Stream: would.Stream, Limit: read.MaxHeld})
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
