package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/sleep"
)

func (s *shell) pruneCommand() *cobra.Command {
	var r control.RunPruneRequest
	var include []string
	var d decision
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove data that is past its horizon and no longer needed", Args: cobra.NoArgs,
		Long: "Remove data that is past its horizon and no longer needed: bodies by whole days, settled effects, and the\n" +
			"keys of events. The worker does this by itself once a minute; this command does it now. It uses the\n" +
			"horizons of the process that started last (see `oncegate config print`).\n\n" +
			"Dead, indeterminate and held effects, and those of open replays, stay at any age unless --include names\n" +
			"them. --include needs --reason and is audited. Only one prune runs at a time: if another one is running,\n" +
			"this command ends. With --include it waits for the other one first, because that one does not remove what\n" +
			"you named; after --wait it exits with 75. You can interrupt it at any time.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("include") && len(include) == 0 {
				return usagef("--include is empty; known are %s", known())
			}
			for _, name := range include {
				if !slices.Contains(prune.Prunables(), prune.Prunable(name)) {
					return usagef("--include %q is unknown; known are %s", clean(name), known())
				}
				r.Include = append(r.Include, prune.Prunable(name))
			}
			if !r.DryRun && len(include) > 0 {
				if err := d.check(s, control.RunPrune.Why); err != nil {
					return err
				}
				r.Reason = d.reason
			}
			on := onDatabase{actor: d.actor, changes: true}
			if !r.DryRun {
				on.progress = s.progress(-1, "pruning")
			}
			return s.controlWith(cmd.Context(), on, func(caller control.Caller) error {
				if r.DryRun {
					return s.pruneDry(cmd.Context(), caller, r)
				}
				if len(include) > 0 {
					if err := s.confirm(d, control.RunPrune.Confirm, func() {
						fmt.Fprintf(s.err, "Everything past its horizon is removed, including effects that are %s. `--dry-run` counts it first.\n", strings.Join(include, ", "))
					}); err != nil {
						return err
					}
				}
				return s.prune(cmd.Context(), caller, r, wait, on.progress)
			})
		},
	}
	requestFlags(cmd, &r)
	cmd.Flags().DurationVar(&wait, "wait", time.Minute, "with --include: how long to wait for another prune to end")
	cmd.Flags().StringSliceVar(&include, "include", nil, "take these too: "+known())
	d.add(cmd)
	return cmd
}

func known() string { return joined(prune.Prunables()) }

func (s *shell) prune(ctx context.Context, caller control.Caller, r control.RunPruneRequest, wait time.Duration, bar *progress) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := pruneAll(ctx, caller, r, wait, bar)
	bar.done()
	if err != nil {
		return err
	}
	if s.output == "json" {
		err = s.json(report)
	} else {
		s.pruned(report, ctx.Err() != nil, len(r.Include) > 0)
	}
	switch {
	case err != nil || ctx.Err() != nil:
		return err
	case !report.Obtained && len(r.Include) > 0:
		return tryLaterf(operationCode(control.CodeLocked), "another pass is under way, which removes no effects that are %s: run the command again", joined(r.Include))
	case !report.Obtained:
		return nil // the other pass removes the same rows
	case report.Archived.Error != "":
		return errorf(errorcode.Failed, "the archive took no bodies, so they stay in the database: %s; examine it with `oncegate doctor`", clean(report.Archived.Error))
	case !report.Complete && len(report.Contended) == 0:
		return errorf(errorcode.Unfinished, "the server did not come to the end in the time of one request; prune on the database itself, without --server")
	case !report.Complete:
		return errorf(errorcode.LockTimeout, "%s could not be done, because others hold locks", strings.Join(report.Contended, ", "))
	}
	return nil
}

// pruned prints what a pass removed, for people.
func (s *shell) pruned(report prune.Report, stopped, included bool) {
	if !report.Obtained {
		if !included {
			fmt.Fprintln(s.out, "another pass is under way: nothing to do here")
		}
		return
	}
	t := &table{header: []string{"TABLE", "ROWS"}}
	for _, day := range report.Partitions {
		t.add(day, "dropped")
	}
	for _, name := range slices.Sorted(maps.Keys(report.Rows)) {
		if report.Rows[name] > 0 {
			t.add(name, strconv.FormatInt(report.Rows[name], 10))
		}
	}
	if len(t.rows) > 0 {
		t.write(s.out, s.width())
	}
	fmt.Fprintf(s.out, "%d rows and %s removed in %s; %s kept, since they are still needed\n", report.Removed(),
		count(len(report.Partitions), "day")+" of bodies", report.Elapsed.Round(time.Millisecond), plural(int(report.Kept), "body", "bodies"))
	if a := report.Archived; a.Bodies > 0 {
		fmt.Fprintf(s.out, "%s archived before, %d bytes in %s\n", plural(int(a.Bodies), "body", "bodies"), a.Bytes, count(int(a.Objects), "object"))
	}
	if stopped {
		fmt.Fprintln(s.out, "stopped; the next pass removes the rest")
	}
}

// betweenTries is how often pruneAll asks again while another prune is running.
const betweenTries = 500 * time.Millisecond

// pruneAll prunes until everything due is removed. A server prunes for some seconds per request, so
// pruneAll repeats the request. With Include it waits for another prune to end, but no longer than wait.
func pruneAll(ctx context.Context, caller control.Caller, r control.RunPruneRequest, wait time.Duration, bar *progress) (prune.Report, error) {
	var sum prune.Report
	began := time.Now()
	for {
		out, err := control.Call(ctx, caller, &control.RunPrune, r)
		if err != nil {
			if ctx.Err() != nil && r.Resume { // the user interrupted it; the caller shows what was done so far
				err = nil
			}
			return sum, err
		}
		if !out.Report.Obtained && len(r.Include) > 0 && time.Since(began) < wait {
			bar.describe("waiting for another prune to end")
			if sleep.For(ctx, betweenTries) == nil {
				continue
			}
		}
		if !out.Report.Obtained && r.Resume { // another pass started in the meantime and finishes all but what Include names
			sum.Obtained, sum.Complete, sum.Elapsed = len(r.Include) == 0, true, time.Since(began)
			return sum, nil
		}
		removed := out.Report.Removed() + int64(len(out.Report.Partitions))
		sum = sum.Plus(*out.Report)
		sum.Elapsed = time.Since(began)
		bar.at(sum.Removed())
		// Rows selected by Include can be anywhere, and each request searches for them from the
		// beginning.
		stuck := len(r.Include) > 0 && removed == 0
		if sum.Complete || !sum.Obtained || len(sum.Contended) > 0 || sum.Archived.Error != "" || stuck || ctx.Err() != nil {
			return sum, nil //nolint:nilerr // the error is only the context's; the caller shows what was done so far
		}
		r.Resume = true
	}
}

// pruneDry shows the horizons and how much is due.
func (s *shell) pruneDry(ctx context.Context, caller control.Caller, r control.RunPruneRequest) error {
	retention, err := control.Call(ctx, caller, &control.ListRetention, control.ListRetentionRequest{})
	if err != nil {
		return err
	}
	out, err := control.Call(ctx, caller, &control.RunPrune, r)
	if err != nil {
		return err
	}
	if s.output == "json" {
		return s.json(map[string]any{"horizons": retention.Data, "counts": out.Counts})
	}
	t := &table{header: []string{"SOURCE", "CLASS", "BODIES", "EFFECTS", "REFUSALS", "TOMBSTONES"}, whole: []string{"SOURCE"}}
	for _, h := range retention.Data {
		t.add(h.Source, h.Class, h.Body, h.Effects, h.Refusals, h.Tombstone)
	}
	t.write(s.out, s.width())
	fmt.Fprintln(s.out)
	t = &table{header: []string{"CLASS", "TABLE", "GO", "STAY", "BYTES"}, whole: []string{"TABLE"}}
	var archived, archivedBytes int64
	var atLeast string
	for _, c := range out.Counts {
		archived, archivedBytes = archived+c.Archived, archivedBytes+c.ArchivedBytes
		if c.AtLeast && c.Archived > 0 {
			atLeast = "at least "
		}
		bytes := ""
		if c.Bytes > 0 {
			bytes = strconv.FormatInt(c.Bytes, 10)
		}
		going, stays := strconv.FormatInt(c.Rows, 10), strconv.FormatInt(c.Stays, 10)
		if c.AtLeast {
			going, stays = "at least "+going, "not counted"
		}
		t.add(cmp.Or(c.Class, "-"), c.Table, going, stays, bytes)
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(s.out, "nothing is past its horizon")
		return nil
	}
	t.write(s.out, s.width())
	if archived > 0 {
		fmt.Fprintf(s.out, "\n%s%s, %d bytes before compression, would be written to the archive first\n", atLeast, plural(int(archived), "body", "bodies"), archivedBytes)
	}
	return nil
}
