package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) listUndecided(cmd *cobra.Command, caller control.Caller, r control.ListUndecidedRequest) error {
	page, err := control.Call(cmd.Context(), caller, &control.ListUndecided, r)
	if err != nil {
		return err
	}
	// Continue a search that ran out of time, because a command may take longer than a page.
	for limit := cmp.Or(r.Limit, 50); page.SearchedTo != nil && len(page.Data) < limit; {
		r.After, r.Limit = page.Next, limit-len(page.Data)
		next, err := control.Call(cmd.Context(), caller, &control.ListUndecided, r)
		if err != nil {
			return err
		}
		next.Data = append(page.Data, next.Data...)
		page = next
	}
	if err := showRows(s, cmd, &undecidedColumns, page.Data); err != nil {
		return err
	}
	if page.HasMore {
		fmt.Fprintln(s.err, "oncegate: there may be more: end the wait of these first, or add --limit")
	}
	return nil
}

var undecidedColumns = columns[control.Undecided]{
	header: []string{"RECEIVED", "SOURCE", "ROUTE", "KEY", "NUMBER", "REASON", "EVENT ID", "EFFECT"},
	spare:  []string{"NUMBER"}, ids: []string{"KEY", "EVENT ID", "EFFECT"}, whole: []string{"RECEIVED", "REASON"},
	cells: func(u *control.Undecided) []any {
		key := ""
		if u.Stream != 0 {
			key = streamKey(u.Key, u.KeyMissing)
		}
		return []any{u.ReceivedAt, u.Source, u.Route, key, u.Number, u.Reason, u.EventID, u.Effect}
	},
	entry: func(u *control.Undecided) listEntry {
		return listEntry{IDs: map[string]string{kindEffect: u.Effect.String()}, Name: u.Source + "/" + u.EventID + " " + u.Route}
	},
}

// hintUndecided mentions, below a list of streams, that effects are held for an operator, because
// some of them have no stream.
func (s *shell) hintUndecided(ctx context.Context, caller control.Caller, r control.ListUndecidedRequest) error {
	r.Limit = read.MaxHeld
	page, err := control.Call(ctx, caller, &control.ListUndecided, r)
	rows := page.Data
	if err != nil || len(rows) == 0 {
		return err
	}
	counts := map[reasons.Reason]int{}
	for i := range rows {
		counts[rows[i].Reason]++
	}
	fmt.Fprintf(s.err, "oncegate: %s effects are held for a person", heldCount(len(rows)))
	for _, reason := range []reasons.Reason{reasons.NoKey, reasons.NoNumber, reasons.Tie, reasons.Ahead} {
		if n := counts[reason]; n > 0 {
			fmt.Fprintf(s.err, ", %d %s", n, reason)
		}
	}
	fmt.Fprintln(s.err, ": see `oncegate streams list --undecided`")
	return nil
}

func (s *shell) streamsApplyCommand() *cobra.Command {
	return s.streamDecision(&control.ApplyStream, &control.ApplyEffect, &cobra.Command{
		Use: "apply <effect id | id | source/route/key>", Short: "Let effects run that are held for a person",
		Long: "Let an effect run that is held for a person, or all such effects of one stream. An effect whose\n" +
			"number another one has takes its turn in the order, as with `ties: apply`. An effect without a key\n" +
			"or a number, or whose number is a time more than a day ahead, runs as soon as it can. On a terminal you type the decision; elsewhere the command\n" +
			"needs --yes. The decision is audited.",
	})
}

// decideEffect decides about one effect that is held for an operator.
func (s *shell) decideEffect(ctx context.Context, operation *decideEffect, id inbox.ID, d *decision) error {
	if err := d.check(s, operation.Why); err != nil {
		return err
	}
	return s.control(ctx, d.actor, func(caller control.Caller) error {
		effect, err := control.Call(ctx, caller, &control.ShowEffect, control.IDRequest{ID: id})
		if err != nil {
			return err
		}
		if err := s.confirm(*d, operation.Confirm, func() { s.warn("effect " + id.String()) }); err != nil {
			return err
		}
		out, err := control.Call(ctx, caller, operation, control.DecideEffectRequest{
			Match: control.Match{IfMatch: effect.Tag()}, Explained: control.Explained{Reason: d.reason}, ID: id,
		})
		if err != nil {
			return err
		}
		return s.showDecided(out)
	})
}

// showDecided shows how many effects are no longer held.
func (s *shell) showDecided(out control.DecidedEffects) error {
	if s.output == "json" {
		return s.json(out)
	}
	what := "set going"
	if out.As == decide.UndecidedSkip {
		what = "skipped"
	}
	return s.print("%d effects are %s", out.Ended, what)
}
