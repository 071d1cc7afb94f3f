package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/control"
)

// compareFlags are the flags for the audit of a run.
type compareFlags struct {
	after            string
	compare, results bool
	limit            int
}

func (f *compareFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.compare, "compare", false, "compare the steps of --run or --label with what would be sent today; nothing is planned, sent or stored")
	flags.BoolVar(&f.results, "results", false, "with --compare: also ask the targets, by their probe and their dry_run, what has become of each step and what they would do")
	flags.IntVar(&f.limit, "limit", replay.MaxAudit, fmt.Sprintf("with --compare: how many events, up to %d", replay.MaxAudit))
	flags.StringVar(&f.after, "after", "", "with --compare: the page after this event")
}

// asked reports whether the flags request an audit. It returns an error if they are inconsistent.
func (f *compareFlags) asked(s *shell, cmd *cobra.Command, args []string, of control.RunScope) (bool, error) {
	if !f.compare {
		for _, name := range []string{"results", "limit", "after"} {
			if cmd.Flags().Changed(name) {
				return false, usagef("--%s needs --compare, which compares a run and plans nothing", name)
			}
		}
		return false, nil
	}
	if of == (control.RunScope{}) || len(args) > 0 {
		return false, usagef("--compare needs a --run or a --label, and no ids")
	}
	if f.results && s.server != "" {
		return false, usagef("--results asks the targets from here, with the configuration of this machine: leave --server out")
	}
	if f.limit < 1 || f.limit > replay.MaxAudit {
		return false, usagef("--limit %d: must be from 1 to %d", f.limit, replay.MaxAudit)
	}
	for _, name := range []string{
		"ids", "all", "include-indeterminate", "include-done", "include-discarded", "include-shadow", "carry-out-shadow", "include-called-again", "new-routes", "new-key", "show", "reason", "actor",
		"type", "route", "target", "dead-reason", "error-class", "text", "event-id", "until",
	} {
		if cmd.Flags().Changed(name) {
			return false, usagef("--%s and --compare exclude each other: a run is compared as a whole, and nothing is planned", name)
		}
	}
	return true, nil
}

// compareRun compares a run. It returns an error unless every step matches.
func (s *shell) compareRun(cmd *cobra.Command, f *compareFlags, ask control.CompareRunRequest) error {
	if ask.Limit, ask.After = f.limit, f.after; f.after != "" {
		if _, err := inbox.ParseID(f.after); err != nil {
			return usagef("--after %q is not an event's id", clean(f.after))
		}
	}
	bar := s.progress(-1, "asking the targets")
	defer bar.done()
	on := onDatabase{settings: (*shell).load, connections: planConnections, results: f.results, progress: bar}
	audit := &replay.Audit{Source: ask.Source, Run: ask.Run, Label: ask.Label, Steps: []replay.RunStep{}}
	err := s.controlWith(cmd.Context(), on, func(caller control.Caller) error {
		for more := true; more && ask.Limit > 0; { // a server ends a page when its time runs out
			page, err := control.Call(cmd.Context(), caller, &control.CompareRun, ask)
			if err != nil {
				return refusedRequest(err)
			}
			for i := range page.Data {
				audit.Steps = append(audit.Steps, page.Data[i].RunStep)
			}
			if more, audit.Next = page.HasMore, nil; more {
				next, err := inbox.ParseID(page.Next)
				if err != nil {
					return err
				}
				audit.Next, ask.After = &next, page.Next
			}
			more = more && page.SearchedTo != nil
			ask.Limit = f.limit - len(audit.Steps) // an event has a step at least
		}
		return nil
	})
	if err != nil {
		return err
	}
	bar.done()
	audit.CountMatching()
	return s.showAudit(audit, f.results)
}

var errRunDiffers = errorf(errorcode.CheckFailed, "not every step matches")

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
		return failf(operationCode(control.CodeNotFound), "%s", noSteps(audit))
	case audit.Next != nil:
		return errorf(errorcode.MoreSteps, "%s", "there are more steps: add --after "+audit.Next.String())
	case !audit.AllMatch() && s.output == "json":
		return errSilent
	case !audit.AllMatch():
		return errRunDiffers
	}
	return nil
}

// noSteps says that nothing was found.
func noSteps(audit *replay.Audit) string {
	if audit.Label != "" {
		return "no event that was asked for has the label " + clean(audit.Label)
	}
	return "source " + audit.Source + " has no step of run " + clean(audit.Run)
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
func requestText(r *replay.DiffSide) string {
	if r == nil {
		return ""
	}
	text := strings.Join(strings.Fields(r.Target+" "+r.Method+" "+r.Address), " ")
	if r.Body != nil {
		text += fmt.Sprintf(" %.8s", r.Body.SHA256)
	}
	return text
}
