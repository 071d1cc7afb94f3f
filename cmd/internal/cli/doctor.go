package cli

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/doctor"
)

func (s *shell) doctorCommand() *cobra.Command {
	var publicURL string
	var strict bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find what makes a promise false or the operation slow, with the setting to change", Args: cobra.NoArgs,
		Long: "Examine the database, the processes, the targets and, with --url, the public address, and name for\n" +
			"everything that is wrong the setting to change. A fault breaks a promise or stops a part; a warning\n" +
			"costs safety or speed. The checks: " + strings.Join(doctor.Checks(), ", ") + ".\n\n" +
			"It changes nothing in the database. In an archive it writes an object and deletes it. It connects to every target without sending a request, and has the database prepare the\n" +
			"statements of targets without running them. With --url it sends two requests that record no event; one\n" +
			"of them shows among the refusals, with the reason method.\n\n" +
			"Exits with 0 if there is no fault, so that a deployment can wait for it, with 1 if there is one (with\n" +
			"--strict also for a warning), with 2 if the configuration is wrong, and with 75 if the database is\n" +
			"unreachable or a check could not be made.",
		Example: "  oncegate doctor\n  oncegate doctor --strict --url https://hooks.example.com\n  oncegate doctor --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at, err := url.Parse(publicURL); publicURL != "" && (err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https") {
				return usagef("--url %q is not an address such as https://hooks.example.com", cleanURL(publicURL))
			}
			cfg, err := s.loadWhole(cmd.Context())
			if err != nil {
				return err
			}
			var found []doctor.Finding
			err = s.withPool(cmd.Context(), fewConnections, func(pool *pgxpool.Pool, keys *seal.Keyring) error {
				found = doctor.Examine(cmd.Context(), doctor.Config{Settings: cfg, Pool: pool, Keys: keys, PublicURL: publicURL, Now: time.Now})
				return nil
			})
			if err != nil {
				return err
			}
			if err := s.showFindings(found); err != nil {
				return err
			}
			return doctorVerdict(found, strict)
		},
	}
	cmd.Flags().StringVar(&publicURL, "url", "", "also examine the public `address` at which senders reach the receivers, such as https://hooks.example.com")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 for warnings too")
	return cmd
}

// showFindings shows one line for each finding, and below it what to change. Nothing is shortened, because the text is the result.
func (s *shell) showFindings(found []doctor.Finding) error {
	if s.output == "json" {
		return s.json(map[string]any{"data": found, "state": doctor.Worst(found)})
	}
	for i := range found {
		f := &found[i]
		text := f.Text
		if f.Subject != "" {
			text = f.Subject + ": " + text
		}
		fmt.Fprintf(s.out, "%-8s %-13s %s\n", f.State, f.Check, clean(text))
		if f.Remedy != "" {
			fmt.Fprintf(s.out, "%-22s remedy: %s\n", "", clean(f.Remedy))
		}
	}
	return nil
}

// doctorVerdict is the error with which the command ends, or nil.
func doctorVerdict(found []doctor.Finding, strict bool) error {
	counts := map[doctor.State]int{}
	for i := range found {
		counts[found[i].State]++
	}
	switch {
	case counts[doctor.Fault] > 0:
		return errorf(errorcode.CheckFailed, "%s", count(counts[doctor.Fault], "fault")+": the remedies say what to change")
	case counts[doctor.Unknown] > 0:
		return errorf(errorcode.Unfinished, "%s could not be made: the table says why", count(counts[doctor.Unknown], "check"))
	case strict && counts[doctor.Warning] > 0:
		return errorf(errorcode.CheckFailed, "%s", count(counts[doctor.Warning], "warning")+": the remedies say what to change")
	}
	return nil
}
