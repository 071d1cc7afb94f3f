package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
)

func (s *shell) streamsSkipCommand() *cobra.Command {
	return s.streamPassCommand(inbox.StreamSkip, "skip <id | source/route/key | effect id>", "Give up what one sequence key, or one held effect, waits for",
		"Give up what one sequence key waits for: the missing numbers, which are late if they still come, or\n"+
			"the effect that blocks it, or else those that are held for a person: they are skipped and never happen.\n"+
			"With an effect's id, only that one, which must be held for a person.")
}

func (s *shell) streamsUnblockCommand() *cobra.Command {
	return s.streamPassCommand(inbox.StreamUnblock, "unblock <id | source/route/key>", "Let the effects behind a dead one go on",
		"Let the effects behind the one that blocks a sequence key go on, and leave that one as it is: it may\n"+
			"be replayed or discarded later, after those that came behind it.")
}

func (s *shell) streamPassCommand(as inbox.StreamPass, use, short, long string) *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		Long: long + " On a terminal the decision\nhas to be typed once more; elsewhere it needs --yes. It is written to the audit.",
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
	pool, err := s.openToChange(cmd.Context())
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
	if err := s.typed(d, string(as), func() { page(s.err, streamPairs(stream)) }); err != nil {
		return err
	}
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "cli"})
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
