package cli

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) suppressionsCommand() *cobra.Command {
	return group("suppressions", "List, check, add, import or remove addresses to which no message is sent",
		s.suppressionsListCommand(), s.suppressionsCheckCommand(), s.suppressionsAddCommand(), s.suppressionsImportCommand(), s.suppressionsRemoveCommand())
}

// onSuppressions returns the database access for changes of suppressions. The configuration says how addresses are
// stored; with `oncegate dev` there is none.
func (s *shell) onSuppressions() onDatabase {
	return onDatabase{changes: true, settings: func(s *shell) (*config.Config, error) {
		cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, Database: s.databaseName, DatabaseOnly: true})
		if err != nil {
			return nil, nil //nolint:nilnil,nilerr // opening the database reports the error
		}
		return cfg, nil
	}}
}

// suppressionReason parses --as.
func suppressionReason(text string) (suppression.Reason, error) {
	reason, err := suppression.ParseReason(text)
	if err != nil {
		return "", usagef("--as %q is %v", clean(text), err)
	}
	return reason, nil
}

func (s *shell) suppressionsListCommand() *cobra.Command {
	list := newList(s, &control.ListSuppressions, &suppressionColumns, &cobra.Command{
		Short: "List suppressed addresses, newest first",
		Long: "List the addresses to which no message is sent. Where only the hash of an address is kept, or its\n" +
			"key is not in the keyring, the list shows the beginning of the hash.",
	})
	list.check = func([]string) (err error) {
		if list.request.Reason != "" {
			_, err = suppressionReason(list.request.Reason)
		}
		return err
	}
	return list.Command
}

var suppressionColumns = columns[control.Suppression]{
	header: []string{"ADDED", "ADDRESS", "REASON", "TARGET", "EXPIRES", "ID"},
	spare:  []string{"ID", "TARGET", "EXPIRES"}, ids: []string{"ADDRESS"}, whole: []string{"ADDED", "EXPIRES"},
	cells: func(row *control.Suppression) []any {
		return []any{row.CreatedAt, suppressedAddress(row), row.Reason, row.Target, row.ExpiresAt, row.ID}
	},
}

// suppressedAddress returns an address, or its digest if the address is not stored or cannot be
// read.
func suppressedAddress(row *control.Suppression) string {
	if row.Address != "" {
		return row.Address
	}
	return "(hash " + row.Digest + ")"
}

func (s *shell) suppressionsCheckCommand() *cobra.Command {
	var r control.CheckSuppressionRequest
	cmd := &cobra.Command{
		Use: "check <address>", Short: "Say whether an address is suppressed, and why", Args: cobra.ExactArgs(1),
		Long: "Say whether messages to an address are suppressed, since when and why. Addresses are compared\n" +
			"without regard to case. The exit code is 0 in both cases; use --output json to distinguish them.",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Address = args[0]
			if err := checkAddress(args[0]); err != nil {
				return err
			}
			return answer(s, cmd, onDatabase{}, &control.CheckSuppression, r, func(check *control.SuppressionCheck) error {
				row := check.Entry
				if row == nil {
					return s.print("not suppressed")
				}
				page(s.out, []pair{
					{"suppressed", "yes"}, {"reason", string(row.Reason)}, {"target", cmp.Or(row.Target, "every target")}, {"since", clock(row.CreatedAt)},
					{"until", timeOrEmpty(row.ExpiresAt)}, {"event", optionalID(row.Event)}, {"id", row.ID.String()},
				})
				return nil
			})
		},
	}
	requestFlags(cmd, &r)
	return cmd
}

func checkAddress(text string) error {
	if _, err := suppression.Normalize(text); err != nil {
		return usagef("%q is %v", clean(text), err)
	}
	return nil
}

func (s *shell) suppressionsAddCommand() *cobra.Command {
	d := newDecision(s, &control.AddSuppression, &cobra.Command{
		Use: "add <address>", Short: "Send no more messages to an address", Args: cobra.ExactArgs(1),
		Long: "Send no more messages to an address. Effects for it become skipped with the reason suppressed,\n" +
			"also those whose message is rendered already. Adding an address again changes nothing, unless it\n" +
			"is suppressed for longer then. The audit does not name the address.",
		Example: "  oncegate suppressions add ann@example.com --as complaint --reason 'ticket 4711'",
	})
	readTerms := suppressionTerms(d.Command, &d.request.SuppressionTerms)
	d.check = func(args []string) error {
		d.request.Address = args[0]
		if err := checkAddress(args[0]); err != nil {
			return err
		}
		return readTerms()
	}
	d.on = s.onSuppressions()
	d.done = func(added *suppression.Added) error {
		switch {
		case added.Extended > 0:
			return s.print("was suppressed already, and is for longer now")
		case added.Known > 0:
			return s.print("was suppressed already")
		}
		return s.print("suppressed")
	}
	return d.Command
}

// suppressionTerms adds the flag --keep to the flags of terms. It returns a function that reads it and checks the terms.
func suppressionTerms(cmd *cobra.Command, terms *control.SuppressionTerms) (read func() error) {
	var keep time.Duration
	cmd.Flags().DurationVar(&keep, "keep", 0, "how long the address stays on the list, such as 720h; 0 is without end")
	cmd.Flags().Lookup("as").DefValue = string(suppression.Manual)
	return func() (err error) {
		if terms.As, err = suppressionReason(cmp.Or(string(terms.As), string(suppression.Manual))); err != nil {
			return err
		}
		if keep < 0 {
			return usagef("--keep %s: must not be negative", keep)
		}
		if len(terms.Target) > 63 {
			return usagef("--target %q is no target's name", clean(terms.Target))
		}
		if keep > 0 {
			terms.ExpiresAt = time.Now().Add(keep)
		}
		return nil
	}
}

func (s *shell) suppressionsRemoveCommand() *cobra.Command {
	d := newDecision(s, &control.RemoveSuppression, &cobra.Command{
		Use: "remove <address>", Short: "Let messages to an address be sent again", Args: cobra.ExactArgs(1),
		Long: "Let messages to an address be sent again. What was skipped stays skipped; `oncegate replay plan`\n" +
			"sends it. Without --target the general entry is removed, and entries for single targets\n" +
			"stay.\n\n" +
			"On a terminal you type the decision; elsewhere the command needs --yes.",
	})
	d.check = func(args []string) error { d.request.Address = args[0]; return checkAddress(args[0]) }
	d.on = s.onSuppressions()
	d.warning = func() string { return "Messages to this address will be sent again." }
	d.failed = failedWith(control.CodeNotFound, func() string {
		return "no such entry: the address is not suppressed, or for another target; `oncegate suppressions check` says so"
	})
	d.done = func(*control.RemovedSuppression) error {
		return s.print("removed: messages to this address are sent again")
	}
	return d.Command
}
