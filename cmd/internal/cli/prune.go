package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/yamltree"
)

func (s *shell) pruneCommand() *cobra.Command {
	var dry bool
	var include []string
	var d decision
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove what is past its horizon and no longer needed", Args: cobra.NoArgs,
		Long: "Remove what is past its horizon and no longer needed: bodies by whole days, settled effects, and\n" +
			"the keys of events. The worker does this by itself once a minute; this command does it now. It\n" +
			"uses the horizons of the process that started last (see `oncegate config print`).\n\n" +
			"What is dead, indeterminate, held or in an open replay stays, however old it is, unless --include\n" +
			"names it. --include needs --reason and is audited. Only one prune runs at a time: if another one\n" +
			"is running, this command ends. You can interrupt it at any time.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			run := prune.Run{Anew: true}
			if cmd.Flags().Changed("include") && len(include) == 0 {
				return usagef("--include is empty; known are %s", known())
			}
			for _, name := range include {
				if !slices.Contains(prune.Prunables(), prune.Prunable(name)) {
					return usagef("--include %q is unknown; known are %s", clean(name), known())
				}
				run.Include = append(run.Include, prune.Prunable(name))
			}
			if !dry && len(include) > 0 {
				if err := d.check(s, "why may what nobody has settled go?"); err != nil {
					return err
				}
				run.Actor, run.Reason = d.actor, d.reason
			}
			pool, err := s.openForChange(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			if dry {
				return s.pruneDry(cmd, pool, run)
			}
			if len(include) > 0 {
				if err := s.confirm(d, "prune", func() {
					fmt.Fprintf(s.err, "Everything past its horizon goes, also what is %s. `--dry-run` counts it first.\n", strings.Join(include, ", "))
				}); err != nil {
					return err
				}
			}
			return s.prune(cmd, pool, run)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count what would go, by class, and remove nothing")
	cmd.Flags().StringSliceVar(&include, "include", nil, "take these too: "+known())
	d.add(cmd)
	return cmd
}

func known() string {
	names := make([]string, 0, 4)
	for _, p := range prune.Prunables() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

func (s *shell) prune(cmd *cobra.Command, pool *pgxpool.Pool, run prune.Run) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	effects, err := app.NewStore(pool, nil)
	if err != nil {
		return err
	}
	bar := s.progress(-1, "pruning")
	pruner, err := prune.New(prune.Config{Pool: pool, Effects: effects, Progress: func(p prune.Progress) {
		bar.describe(fmt.Sprintf("pruning %s %3.0f %%", p.Step, p.Done*100))
		bar.at(p.Removed)
	}})
	if err != nil {
		return err
	}
	report, err := pruner.Run(ctx, run)
	bar.done()
	if err != nil {
		return err
	}
	if s.output == "json" {
		return s.json(report)
	}
	if !report.Obtained {
		fmt.Fprintln(s.out, "another pass is under way: nothing to do here")
		return nil
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
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(s.out, "stopped; what is left goes with the next pass")
	case !report.Complete:
		return tryLaterf("%s could not be done, because others hold locks", strings.Join(report.Contended, ", "))
	}
	return nil
}

// pruneDry shows the horizons and what they come to.
func (s *shell) pruneDry(cmd *cobra.Command, pool *pgxpool.Pool, run prune.Run) error {
	pruner, err := prune.New(prune.Config{Pool: pool})
	if err != nil {
		return err
	}
	retention, err := prune.Retention(cmd.Context(), pool)
	if err != nil {
		return err
	}
	counts, err := pruner.DryRun(cmd.Context(), run)
	if err != nil {
		return err
	}
	if s.output == "json" {
		return s.json(map[string]any{"horizons": horizonRows(retention), "counts": append([]prune.Count{}, counts...)})
	}
	t := &table{header: []string{"SOURCE", "CLASS", "BODIES", "EFFECTS", "REFUSALS", "TOMBSTONES"}, whole: []string{"SOURCE"}}
	for _, h := range horizonRows(retention) {
		t.add(h.Source, h.Class, h.Body, h.Effects, h.Refusals, h.Tombstone)
	}
	t.write(s.out, s.width())
	fmt.Fprintln(s.out)
	t = &table{header: []string{"CLASS", "TABLE", "GO", "STAY", "BYTES"}, whole: []string{"TABLE"}}
	for _, c := range counts {
		bytes := ""
		if c.Bytes > 0 {
			bytes = strconv.FormatInt(c.Bytes, 10)
		}
		t.add(cmp.Or(c.Class, "-"), c.Table, strconv.FormatInt(c.Rows, 10), strconv.FormatInt(c.Stays, 10), bytes)
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(s.out, "nothing is past its horizon")
		return nil
	}
	t.write(s.out, s.width())
	return nil
}

type horizonRow struct {
	Source    string `json:"source"`
	Class     string `json:"class"`
	Body      string `json:"body"`
	Effects   string `json:"effects"`
	Refusals  string `json:"refusals"`
	Tombstone string `json:"tombstone"`
}

func horizonRows(retention []prune.SourceRetention) []horizonRow {
	out := make([]horizonRow, len(retention))
	for i, r := range retention {
		out[i] = horizonRow{
			Source: r.Source, Class: r.Class, Body: yamltree.FormatDuration(r.Keep.Body), Effects: yamltree.FormatDuration(r.Keep.Effects),
			Refusals: yamltree.FormatDuration(r.Keep.Refusals), Tombstone: yamltree.FormatDuration(r.Keep.Tombstone),
		}
	}
	return out
}
