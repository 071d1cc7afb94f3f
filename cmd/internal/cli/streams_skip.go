package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/app"
)

func (s *shell) streamsSkipCommand() *cobra.Command {
	return s.streamPassCommand(inbox.StreamSkip, "skip <id | source/route/key | effect id>", "Give up what a stream, or one held effect, waits for",
		"Give up what one stream waits for. If numbers are missing, they are given up and are late if they still\n"+
			"arrive. Otherwise the effect that blocks the stream, or the effects that are held for a person, are\n"+
			"skipped and never happen. With the id of an effect, only that one, which must be held for a person.")
}

func (s *shell) streamsUnblockCommand() *cobra.Command {
	return s.streamPassCommand(inbox.StreamUnblock, "unblock <id | source/route/key>", "Let the effects behind a dead letter go on",
		"Let the effects behind the one that blocks a stream go on, and leave that one as it is. You can\n"+
			"replay or discard it later, after the effects that were behind it.")
}

func (s *shell) streamPassCommand(as inbox.StreamPass, use, short, long string) *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		Long: long + "\n\nOn a terminal you type the decision; elsewhere the command needs --yes. The decision is audited.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.check(s, "why is it right to go on without?"); err != nil {
				return err
			}
			if id, err := inbox.ParseID(args[0]); err == nil {
				if as != inbox.StreamSkip {
					return usagef("%s is an effect's id: to let it run type `oncegate streams apply %s`, else name its stream", args[0], args[0])
				}
				return s.endUndecided(cmd, []inbox.ID{id}, inbox.UndecidedSkip, d)
			}
			return s.passStream(cmd, args[0], as, d)
		},
	}
	d.add(cmd)
	return cmd
}

func (s *shell) passStream(cmd *cobra.Command, ref string, as inbox.StreamPass, d decision) error {
	pool, err := s.openForChange(cmd.Context())
	if err != nil {
		return err
	}
	defer pool.Close()
	lister, err := s.lister(pool)
	if err != nil {
		return err
	}
	stream, err := lister.Stream(cmd.Context(), ref)
	if err != nil {
		return err
	}
	p := inbox.PassStream{Stream: stream.ID, As: as, MissingTo: stream.MissingTo, Actor: d.actor, Reason: d.reason}
	var what string
	switch {
	case stream.BlockedBy != nil:
		p.Blocker = *stream.BlockedBy
		if stream.BlockedByEffect != nil {
			p.Revision = &stream.BlockedByEffect.Revision
		}
		what = "effect " + p.Blocker.String() + " is skipped"
		if as == inbox.StreamUnblock {
			what = "it goes on behind effect " + p.Blocker.String()
		}
	case as == inbox.StreamUnblock:
		return &failure{text: fmt.Sprintf("stream %d is blocked by nothing", stream.ID)}
	case stream.MissingTo == "" && stream.Undecided > 0:
		return s.endUndecidedOf(cmd, pool, stream, inbox.UndecidedSkip, d)
	case stream.MissingTo == "":
		return &failure{text: fmt.Sprintf("stream %d waits for nothing that could be skipped", stream.ID)}
	default:
		what = "number " + missing(stream) + " is given up"
	}
	if err := s.confirm(d, string(as), func() { page(s.err, streamPairs(stream)) }); err != nil {
		return err
	}
	store, err := app.NewStore(pool, nil)
	if err != nil {
		return err
	}
	if err := store.PassStream(cmd.Context(), p); err != nil {
		return err
	}
	if s.output == "json" {
		return s.json(map[string]any{"stream": stream.ID, "passed": as, "what": what})
	}
	fmt.Fprintf(s.out, "stream %d goes on: %s\n", stream.ID, what)
	return nil
}
