package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/reconcile"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) reconcileCommand() *cobra.Command {
	var d decision
	var r control.ReconcileRequest
	cmd := &cobra.Command{
		Use: "reconcile <source>", Short: "Ask a sender which events there were, and admit those that never arrived", Args: cobra.ExactArgs(1),
		Long: "Ask the API of a source's sender which events there were in a period, and admit those that never\n" +
			"arrived, each once, through the same gate as a delivery. The source has a reconcile section with the\n" +
			"credential of that API. Where the sender delivers again on request, as GitHub does, Oncegate requests\n" +
			"that instead.\n\n" +
			"--dry-run reports the missing events and changes nothing. Only one run of a source works at a time: a\n" +
			"second one exits with 75, and so does a run whose sender does not answer now. You can interrupt a run\n" +
			"at any time and continue it with --resume.",
		Example: "  oncegate reconcile stripe --since 24h --dry-run\n" +
			"  oncegate reconcile stripe --since 24h --reason \"the proxy was down from 2 to 5\"",
	}
	readFlags := requestFlags(cmd, &r)
	d.addExplanation(cmd)
	cmd.Flags().Lookup("reason").Usage += " without --dry-run"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := readFlags(); err != nil {
			return err
		}
		r.Source = args[0]
		if !r.DryRun {
			if err := d.check(s, control.Reconcile.Why); err != nil {
				return err
			}
		}
		r.Reason = d.reason
		return s.controlWith(cmd.Context(), onDatabase{actor: d.actor, settings: (*shell).servedConfig}, func(caller control.Caller) error {
			return s.reconcile(cmd.Context(), caller, r)
		})
	}
	return cmd
}

// reconcile repeats the request until the sender's last page was read.
func (s *shell) reconcile(ctx context.Context, caller control.Caller, r control.ReconcileRequest) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	bar := s.progress(-1, "listing")
	defer bar.done()
	var sum reconcile.Report
	for {
		out, err := control.Call(ctx, caller, &control.Reconcile, r)
		switch {
		case err == nil:
		case ctx.Err() != nil && !r.DryRun:
			return errorf(errorcode.Unfinished, "interrupted; `oncegate reconcile %s --resume` continues it", clean(r.Source))
		case problemCode(err) == control.CodeInvalid:
			return refusedRequest(err)
		case problemCode(err) == control.CodeLocked, problemCode(err) == control.CodeUnavailable:
			return tryLaterf(operationCode(problemCode(err)), "%s", oneLine(err.Error()))
		default:
			return err
		}
		if r.After != "" { // the parts of a dry run are counted separately
			sum = sum.Plus(out.Report)
		} else {
			sum = out.Report
		}
		bar.at(int64(sum.Listed))
		if out.Complete {
			bar.done()
			return s.showReconciled(sum, r.DryRun)
		}
		r.Since, r.Until = sum.Since, sum.Until
		if r.DryRun {
			r.After = out.Next
			continue
		}
		r = control.ReconcileRequest{Explained: r.Explained, Source: r.Source, Resume: true}
	}
}

func (s *shell) showReconciled(r reconcile.Report, dryRun bool) error {
	if s.output == "json" {
		return s.json(control.ReconciledSource{DryRun: dryRun, Report: r})
	}
	pairs := []pair{{"since", clock(r.Since)}, {"until", clock(r.Until)}}
	page(s.out, append(pairs, countPairs(r.Counts, dryRun)...))
	return nil
}

func countPairs(c reconcile.Counts, dryRun bool) []pair {
	missing := count(c.Missing, "event")
	switch {
	case c.Missing == 0:
	case dryRun:
		missing += ", which a run without --dry-run would admit or ask for again"
	case c.Redelivered > 0:
		missing += fmt.Sprintf(": %d will be delivered again", c.Redelivered)
	default:
		missing += fmt.Sprintf(": %d admitted", c.Admitted)
		if c.Arrived > 0 {
			missing += fmt.Sprintf(", %d arrived meanwhile", c.Arrived)
		}
	}
	return []pair{
		{"listed", count(c.Listed, "event")},
		{"of other types", nonzero(c.Other)},
		{"known already", count(c.Known, "event")},
		{"late", nonzero(c.Late)},
		{"missing", missing},
		{"unusable", nonzero(c.Unusable)},
		{"the first of them", clean(c.Why)},
	}
}

// reconcilePairs shows how a source's sender is asked, and the last run.
func reconcilePairs(r *control.SourceReconcile) []pair {
	if r == nil {
		return nil
	}
	every := "by hand"
	if r.Every != "" {
		every = "every " + r.Every
	}
	pairs := []pair{{"reconcile", fmt.Sprintf("%s, asks %s with %s", every, r.Host, r.Credential)}}
	last := r.Last
	if last == nil {
		return append(pairs, pair{"last run", "none"})
	}
	state := "complete"
	switch {
	case last.Error != "":
		state = "failed: " + last.Error
	case !last.Complete && last.EndedAt == nil:
		state = "under way, or interrupted"
	case !last.Complete:
		state = "interrupted"
	}
	found := []string{fmt.Sprintf("%d listed", last.Listed), fmt.Sprintf("%d missing", last.Missing), fmt.Sprintf("%d admitted", last.Admitted)}
	if last.Redelivered > 0 {
		found[2] = fmt.Sprintf("%d asked for again", last.Redelivered)
	}
	return append(pairs, pair{"last run", fmt.Sprintf("%s, %s: %s", clock(last.BeganAt), state, strings.Join(found, ", "))})
}
