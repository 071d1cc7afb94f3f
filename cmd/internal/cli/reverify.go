package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/app"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
)

func (s *shell) refusalsReverifyCommand() *cobra.Command {
	var f listFlags
	var cause, actor, reason string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "reverify --source <name>", Short: "Verify kept refusals with today's secrets, and admit those that verify", Args: cobra.NoArgs,
		Long: "Verify the kept refusals of a source with the secrets of the configuration, each at the time at\n" +
			"which it was received, and admit those that verify through the gate, as if they had verified then:\n" +
			"recorded once, whatever the sender has delivered again since. For the day a rotation was botched.\n\n" +
			"What is admitted is taken out of the refusals. --dry-run admits nothing and writes nothing.",
		Example: "  oncegate refusals reverify --source stripe --dry-run\n" +
			"  oncegate refusals reverify --source stripe --since 12h --reason \"the new secret was missing from 2 to 5\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.limit = 1
			since, _, err := f.parse(nil)
			if err != nil {
				return err
			}
			actor = cmp.Or(actor, s.env("ONCEGATE_ACTOR"), s.env("USER"), s.env("LOGNAME"))
			switch {
			case f.source == "":
				return usagef("--source is missing")
			case !dryRun && strings.TrimSpace(reason) == "":
				return usagef("--reason is missing: it goes into the audit; or look first, with --dry-run")
			case !dryRun && actor == "":
				return usagef("--actor is missing, and neither ONCEGATE_ACTOR nor USER says who decides")
			}
			cfg, err := s.loadConfig()
			if err != nil {
				return err
			}
			progress := s.reverifyProgress()
			report, err := app.Reverify(cmd.Context(), app.ReverifyConfig{
				Settings: cfg, Logger: newLogger(s, cfg.Log), Source: f.source, Cause: cause, Since: since, DryRun: dryRun,
				Actor: actor, Reason: reason, Progress: progress,
			})
			switch {
			case errors.Is(err, app.ErrConfiguration), errors.Is(err, receiver.ErrNotKept):
				return usagef("%v", err)
			case err != nil:
				_ = s.showReverified(report, dryRun) // what was done until then is done
				if errors.Is(err, inbox.ErrOverloaded) {
					return laterf("%v; run it again, it goes on where it ended", err)
				}
				return err
			}
			return s.showReverified(report, dryRun)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "the source; required")
	flags.StringVar(&cause, "cause", "", "only with this cause, such as mismatch")
	flags.StringVar(&f.since, "since", "", "only received since: a duration before now (2h, 7d) or an instant (2026-11-20T12:00:00Z)")
	flags.BoolVar(&dryRun, "dry-run", false, "say what would be admitted, and do nothing")
	flags.StringVar(&reason, "reason", "", "why; required unless --dry-run")
	flags.StringVar(&actor, "actor", "", "who decides (default $ONCEGATE_ACTOR, then $USER)")
	return cmd
}

// reverifyProgress shows counts on a terminal, over and over in one line.
func (s *shell) reverifyProgress() func(inbox.ReverifyReport) {
	f, ok := s.err.(*os.File)
	if !ok || !isTerminal(f) {
		return nil
	}
	return func(r inbox.ReverifyReport) {
		fmt.Fprintf(f, "\r%d examined, %d verified", r.Examined, r.Verified)
	}
}

func (s *shell) showReverified(r inbox.ReverifyReport, dryRun bool) error {
	if f, ok := s.err.(*os.File); ok && isTerminal(f) && r.Examined > 0 {
		fmt.Fprintln(f)
	}
	if s.output == "json" {
		return s.json(struct {
			DryRun bool `json:"dry_run"`
			inbox.ReverifyReport
		}{dryRun, r})
	}
	recorded := "recorded"
	if dryRun {
		recorded = "would be recorded"
	}
	page(s.out, []pair{
		{"examined", fmt.Sprint(r.Examined)},
		{"verified", fmt.Sprint(r.Verified)},
		{"refused again", fmt.Sprint(r.Refused)},
		{recorded, count(r.Recorded, "event")},
		{"known already", count(r.Duplicates, "event")},
		{"conflicts", nonzero(r.Conflicts)},
		{"unusable", nonzero(r.Unusable)},
	})
	return nil
}

func nonzero(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
