package cli

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/internal/app"
)

func (s *shell) refusalsReverifyCommand() *cobra.Command {
	var f listFlags
	var d decision
	var cause string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "reverify --source <name>", Short: "Verify kept refusals with today's secrets, and admit those that verify", Args: cobra.NoArgs,
		Long: "Verify the kept refusals of a source with the secrets of the configuration, each at the time at\n" +
			"which it was received, and admit those that verify. They are recorded as if they had verified\n" +
			"then, each event once, whatever the sender has delivered again since. Use this after a rotation of\n" +
			"secrets that went wrong.\n\n" +
			"Admitted deliveries are removed from the refusals. --dry-run admits nothing and writes nothing.",
		Example: "  oncegate refusals reverify --source stripe --dry-run\n" +
			"  oncegate refusals reverify --source stripe --since 12h --reason \"the new secret was missing from 2 to 5\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.limit = 1
			since, _, err := f.parse(nil)
			if err != nil {
				return err
			}
			if f.source == "" {
				return usagef("--source is missing")
			}
			if err := checkCause(cause); err != nil {
				return err
			}
			if !dryRun {
				if err := d.check(s, "why did they not verify? (--dry-run needs none.)"); err != nil {
					return err
				}
			}
			cfg, err := s.servedConfig()
			if err != nil {
				return err
			}
			quiet := cfg.Log
			quiet.Level = max(quiet.Level, slog.LevelError)
			bar := s.progress(-1, "verifying")
			report, err := app.Reverify(cmd.Context(), app.ReverifyConfig{
				Settings: cfg, Logger: newLogger(s, quiet), Source: f.source, Cause: cause, Since: since, DryRun: dryRun,
				Actor: d.actor, Reason: d.reason, Progress: func(r refusal.ReverifyReport) { bar.at(int64(r.Examined)) },
			})
			bar.done()
			switch {
			case errors.Is(err, app.ErrConfiguration), errors.Is(err, receiver.ErrNotKept):
				return usagef("%v", err)
			case err != nil:
				_ = s.showReverified(report, dryRun) // what was done until then is done
				if errors.Is(err, gate.ErrOverloaded) {
					return tryLaterf("%v; run it again, it goes on where it ended", err)
				}
				return err
			}
			return s.showReverified(report, dryRun)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "the source; required")
	flags.StringVar(&cause, "cause", "", "only this cause, such as mismatch")
	f.addSince(cmd, "received ")
	flags.BoolVar(&dryRun, "dry-run", false, "say what would be admitted, and do nothing")
	flags.StringVar(&d.reason, "reason", "", "the reason, for the audit; required without --dry-run")
	flags.StringVar(&d.actor, "actor", "", "who decides (default $ONCEGATE_ACTOR, then $USER)")
	return cmd
}

func (s *shell) showReverified(r refusal.ReverifyReport, dryRun bool) error {
	if s.output == "json" {
		return s.json(struct {
			DryRun bool `json:"dry_run"`
			refusal.ReverifyReport
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
		{"unreadable", nonzero(r.Unreadable)},
		{"undecided", undecided(r.Undecided)},
		{recorded, count(r.Recorded, "event")},
		{"known already", count(r.Duplicates, "event")},
		{"conflicts", nonzero(r.Conflicts)},
		{"unusable", nonzero(r.Unusable)},
	})
	return nil
}

// undecided says what to do about refusals whose key could not be got.
func undecided(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d: the sender's key could not be got; run it again in a minute", n)
}
