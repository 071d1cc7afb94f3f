package cli

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/app"
)

func (s *shell) listUndecided(ctx context.Context, cmd *cobra.Command, lister *inbox.Lister, f inbox.StreamFilter) error {
	page, err := lister.Undecided(ctx, f, 0)
	if err != nil {
		return err
	}
	if err := showRows(s, cmd, page.Data, undecidedTable, undecidedEntry); err != nil {
		return err
	}
	if page.HasMore {
		fmt.Fprintln(s.err, "oncegate: there may be more: end the wait of these first, or add --limit")
	}
	return nil
}

func undecidedTable(rows []inbox.Undecided) *table {
	t := &table{
		header: []string{"SOURCE", "ROUTE", "KEY", "NUMBER", "REASON", "EVENT ID", "EFFECT"},
		spare:  []string{"NUMBER"}, ids: []string{"KEY", "EVENT ID", "EFFECT"}, whole: []string{"REASON"},
	}
	for i := range rows {
		u := &rows[i]
		key := ""
		if u.Stream != 0 {
			key = streamKey(u.Key, u.KeyMissing)
		}
		t.add(u.Source, u.Route, key, u.Number, string(u.Reason), u.EventID, u.Effect.String())
	}
	return t
}

func undecidedEntry(u *inbox.Undecided) listEntry {
	return listEntry{IDs: map[string]string{kindEffect: u.Effect.String()}, Name: u.Source + "/" + u.EventID + " " + u.Route}
}

// hintUndecided says under a list of streams that effects are held for a person: some
// of them have no stream.
func (s *shell) hintUndecided(ctx context.Context, lister *inbox.Lister, f inbox.StreamFilter) error {
	f.Limit = inbox.MaxHeld
	page, err := lister.Undecided(ctx, f, 0)
	rows := page.Data
	if err != nil || len(rows) == 0 {
		return err
	}
	reasons := map[inbox.Reason]int{}
	for i := range rows {
		reasons[rows[i].Reason]++
	}
	fmt.Fprintf(s.err, "oncegate: %s effects are held for a person", heldCount(len(rows)))
	for _, reason := range []inbox.Reason{inbox.ReasonNoKey, inbox.ReasonNoNumber, inbox.ReasonTie} {
		if n := reasons[reason]; n > 0 {
			fmt.Fprintf(s.err, ", %d %s", n, reason)
		}
	}
	fmt.Fprintln(s.err, ": see `oncegate streams list --undecided`")
	return nil
}

func (s *shell) streamsApplyCommand() *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "apply <effect id | id | source/route/key>", Short: "Let effects run that are held for a person", Args: cobra.ExactArgs(1),
		Long: "Let an effect run that is held for a person, or all such effects of one stream. An effect whose\n" +
			"number another one has takes its turn in the order, as with `ties: apply`. An effect without a key\n" +
			"or a number runs as soon as it can. On a terminal you type the decision; elsewhere the command\n" +
			"needs --yes. The decision is audited.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.check(s, "why is it right to let it run?"); err != nil {
				return err
			}
			if id, err := inbox.ParseID(args[0]); err == nil {
				return s.endUndecided(cmd, []inbox.ID{id}, inbox.UndecidedApply, d)
			}
			pool, err := s.openPool(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			lister, err := s.lister(pool)
			if err != nil {
				return err
			}
			stream, err := lister.Stream(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.endUndecidedOf(cmd, pool, stream, inbox.UndecidedApply, d)
		},
	}
	d.add(cmd)
	return cmd
}

// endUndecidedOf ends the wait of all effects of a stream that are held for a person.
func (s *shell) endUndecidedOf(cmd *cobra.Command, pool *pgxpool.Pool, stream *inbox.StreamDetail, as inbox.UndecidedEnd, d decision) error {
	lister, err := s.lister(pool)
	if err != nil {
		return err
	}
	page, err := lister.Undecided(cmd.Context(), inbox.StreamFilter{Limit: inbox.MaxHeld}, stream.ID)
	if err != nil {
		return err
	}
	rows := page.Data
	if len(rows) == 0 {
		return &failure{text: fmt.Sprintf("stream %d holds nothing for a person; see `oncegate streams list --undecided`", stream.ID)}
	}
	ids := make([]inbox.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].Effect
	}
	return s.endUndecidedOn(cmd, pool, ids, rows, as, d)
}

func (s *shell) endUndecided(cmd *cobra.Command, ids []inbox.ID, as inbox.UndecidedEnd, d decision) error {
	pool, err := s.openPool(cmd.Context())
	if err != nil {
		return err
	}
	defer pool.Close()
	return s.endUndecidedOn(cmd, pool, ids, nil, as, d)
}

func (s *shell) endUndecidedOn(cmd *cobra.Command, pool *pgxpool.Pool, ids []inbox.ID, rows []inbox.Undecided, as inbox.UndecidedEnd, d decision) error {
	revisions := make(map[inbox.ID]int, len(ids))
	for i := range rows {
		revisions[rows[i].Effect] = rows[i].Revision
	}
	if rows == nil { // one effect by its id
		effect, err := inbox.NewLister(pool).Effect(cmd.Context(), ids[0])
		if err != nil {
			return err
		}
		revisions[ids[0]] = effect.Revision
	}
	err := s.confirm(d, string(as), func() {
		if rows == nil {
			fmt.Fprintf(s.err, "effect %s\n", ids[0])
			return
		}
		undecidedTable(rows).write(s.err, s.width())
	})
	if err != nil {
		return err
	}
	store, err := app.NewStore(pool, nil)
	if err != nil {
		return err
	}
	n, err := store.EndUndecided(cmd.Context(), inbox.EndUndecided{Effects: ids, As: as, Revisions: revisions, Actor: d.actor, Reason: d.reason})
	if err != nil {
		return err
	}
	if s.output == "json" {
		return s.json(map[string]any{"ended": n, "as": as, "effects": ids})
	}
	what := "set going"
	if as == inbox.UndecidedSkip {
		what = "skipped"
	}
	fmt.Fprintf(s.out, "%d effects are %s\n", n, what)
	return nil
}
