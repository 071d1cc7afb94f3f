package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
)

// compareFlags are the flags for the audit of a run.
type compareFlags struct {
	run, after       string
	compare, results bool
	limit            int
}

func (f *compareFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.run, "run", "", "with --compare: the run, which is the first part of its keys")
	flags.BoolVar(&f.compare, "compare", false, "compare the steps of --run with what would be sent today; nothing is planned, sent or stored")
	flags.BoolVar(&f.results, "results", false, "with --compare: also ask the targets, by their probe and their dry_run, what has become of each step and what they would do")
	flags.IntVar(&f.limit, "limit", replay.MaxAudit, fmt.Sprintf("with --compare: how many events, up to %d", replay.MaxAudit))
	flags.StringVar(&f.after, "after", "", "with --compare: the page after this event")
}

// asked reports whether the flags request an audit. It returns an error if they are inconsistent.
func (f *compareFlags) asked(cmd *cobra.Command, args []string) (bool, error) {
	if !f.compare {
		for _, name := range []string{"run", "results", "limit", "after"} {
			if cmd.Flags().Changed(name) {
				return false, usagef("--%s needs --compare, which compares a run and plans nothing", name)
			}
		}
		return false, nil
	}
	if f.run == "" || len(args) > 0 {
		return false, usagef("--compare needs a --run, and no ids")
	}
	if f.limit < 1 || f.limit > replay.MaxAudit {
		return false, usagef("--limit %d: must be from 1 to %d", f.limit, replay.MaxAudit)
	}
	for _, name := range []string{
		"ids", "all", "include-indeterminate", "include-done", "include-discarded", "include-called-again", "new-routes", "new-key", "show", "reason", "actor",
		"type", "route", "target", "dead-reason", "error-class", "text", "event-id", "until",
	} {
		if cmd.Flags().Changed(name) {
			return false, usagef("--%s and --compare exclude each other: a run is compared as a whole, and nothing is planned", name)
		}
	}
	return true, nil
}

// compareRun compares a run. It returns an error unless every step matches.
func (s *shell) compareRun(cmd *cobra.Command, f *compareFlags, source string, since time.Time) error {
	cfg, err := s.loadConfig()
	if err != nil {
		return err
	}
	if err := checkRunSource(cfg, source); err != nil {
		return err
	}
	ask := replay.AuditRequest{Source: source, Run: providers.KeyPart(f.run), Since: since, Limit: f.limit}
	if f.after != "" {
		if ask.After, err = inbox.ParseID(f.after); err != nil {
			return usagef("--after %q is not an event's id", clean(f.after))
		}
	}
	var audit *replay.Audit
	err = s.withPool(cmd.Context(), fewConnections, func(pool *pgxpool.Pool, keys *seal.Keyring) error {
		audit, err = s.audit(cmd.Context(), cfg, pool, keys, ask, f.results)
		return err
	})
	if err != nil {
		return err
	}
	return s.showAudit(audit, f.results)
}

func checkRunSource(cfg *config.Config, name string) error {
	var operations []string
	for _, source := range cfg.Sources {
		if source.Provider == nil || !source.Provider.IsOperation() {
			continue
		}
		if source.Name == name {
			return nil
		}
		operations = append(operations, source.Name)
	}
	if len(operations) == 0 {
		return usagef("no source of the configuration takes operations: only these have runs")
	}
	return usagef("--compare needs --source with a source of operations: %s", clean(strings.Join(operations, ", ")))
}

func (s *shell) audit(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool, keys *seal.Keyring, ask replay.AuditRequest, results bool) (*replay.Audit, error) {
	judge, err := app.NewJudge(ctx, app.JudgeConfig{Settings: cfg, Pool: pool, Keyring: keys, Logger: newLogger(s, cfg.Log)})
	if err != nil {
		return nil, err
	}
	comparison := judge.Comparison()
	var asked *app.Results
	if results {
		if asked, err = judge.Results(); err != nil {
			return nil, err
		}
		defer asked.Close()
		comparison, ask.Results = asked.Comparison(), true
	}
	auditor, err := replay.NewAuditor(replay.AuditConfig{Pool: pool, Keyring: keys, Comparer: comparison})
	if err != nil {
		return nil, err
	}
	out, err := auditor.Audit(ctx, ask)
	if err != nil || !results {
		return out, err
	}
	bar := s.progress(int64(len(out.Steps)), "asking the targets")
	defer bar.done()
	return out, asked.Compare(ctx, out, func(steps int) { bar.at(int64(steps)) })
}

var errRunDiffers = errors.New("not every step matches")

func (s *shell) showAudit(audit *replay.Audit, results bool) error {
	t := &table{
		header: []string{"OPERATION", "KEY", "ROUTE", "STATE", "ORIGINAL", "TODAY", "MATCH", "WHY"},
		spare:  []string{"WHY", "STATE", "ROUTE"}, whole: []string{"MATCH", "KEY"},
	}
	if results {
		t.header = append(t.header, "STORED", "TARGET SAYS")
	}
	for i := range audit.Steps {
		step := &audit.Steps[i]
		match := "yes"
		if !step.Match {
			match = string(step.Verdict)
		}
		why := step.Why
		if len(step.Changes) > 0 && step.Changes[0].Path != "$" { // the digests already show that the whole body differs
			why = append(slices.Clone(why), "differs in "+clean(changedPaths(step.Changes)))
		}
		cells := []string{
			step.Operation, step.Key, step.Route, string(step.State), requestText(step.Original), requestText(step.Today), match, strings.Join(why, "; "),
		}
		if results {
			cells = append(cells, resultCells(step.Result)...)
		}
		t.add(cells...)
	}
	if err := s.show(t, audit); err != nil {
		return err
	}
	if s.output == "table" {
		fmt.Fprintf(s.out, "matching: %d of %s; nothing was planned, sent or stored\n", audit.Matching, plural(len(audit.Steps), "step", "steps"))
	}
	switch {
	case len(audit.Steps) == 0:
		return &failure{text: "source " + audit.Source + " has no step of run " + audit.Run}
	case audit.Next != nil:
		return &failure{text: "there are more steps: add --after " + audit.Next.String()}
	case !audit.AllMatch() && s.output == "json":
		return errSilent
	case !audit.AllMatch():
		return errRunDiffers
	}
	return nil
}

// resultCells returns the stored result of a step, and the target's answer.
func resultCells(r *replay.StepResult) []string {
	if r == nil {
		return []string{"", ""}
	}
	says := r.Target
	if d := r.DryRun; d != nil {
		dry := strings.Join(strings.Fields("dry run: "+d.Outcome+" "+d.Code), " ")
		switch {
		case d.Why != "":
			dry += " (" + d.Why + ")"
		case len(d.Changes) > 0:
			dry += ", another answer in " + changedPaths(d.Changes)
		}
		if says == "no probe" {
			return []string{r.Stored, dry}
		}
		says += "; " + dry
	}
	return []string{r.Stored, says}
}

// changedPaths returns the paths of the differences in one line, without the values.
func changedPaths(changes []replay.Change) string {
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.Path
	}
	return strings.Join(paths, ", ")
}

// requestText returns one side of a step: the destination and the beginning of its body's digest.
func requestText(r *replay.DiffRequest) string {
	if r == nil {
		return ""
	}
	text := strings.Join(strings.Fields(r.Target+" "+r.Method+" "+r.Address), " ")
	if r.Body != nil {
		text += fmt.Sprintf(" %.8s", r.Body.SHA256)
	}
	return text
}
