package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) suppressionsCommand() *cobra.Command {
	return group("suppressions", "List, check, add, import or remove addresses to which no message is sent",
		s.suppressionsListCommand(), s.suppressionsCheckCommand(), s.suppressionsAddCommand(), s.suppressionsImportCommand(), s.suppressionsRemoveCommand())
}

// suppressed returns the database access for suppressions. The configuration says how addresses are
// stored; with `oncegate dev` there is none.
func (s *shell) suppressed(d decision, changes bool) onDatabase {
	return onDatabase{actor: d.actor, changes: changes, settings: func() (*config.Config, error) {
		cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, DatabaseOnly: true})
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

func addSuppressionTarget(cmd *cobra.Command, target *string, about string) {
	cmd.Flags().StringVar(target, "target", "", about)
}

func (s *shell) suppressionsListCommand() *cobra.Command {
	var f listFlags
	var as, target string
	cmd := &cobra.Command{
		Use: "list", Short: "List suppressed addresses, newest first", Args: cobra.NoArgs,
		Long: "List the addresses to which no message is sent. Where only the hash of an address is kept, or its\n" +
			"key is not in the keyring, the list shows the beginning of the hash.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := f.parse(nil)
			if err != nil {
				return err
			}
			if as != "" {
				if _, err = suppressionReason(as); err != nil {
					return err
				}
			}
			r := control.ListSuppressionsRequest{Reason: as, Target: target, Since: since}
			return listPages(s, cmd, &f.pageFlags, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[control.Suppression], error) {
				r.PageRequest = p
				return control.Call(ctx, caller, &control.ListSuppressions, r)
			}, s.suppressionTable, nil)
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "only those suppressed as bounce, complaint, unsubscribe or manual")
	addSuppressionTarget(cmd, &target, "only those that hold for this target alone")
	f.addSince(cmd, "suppressed ")
	f.pageFlags.add(cmd)
	return cmd
}

func (s *shell) suppressionTable(rows []control.Suppression) *table {
	t := &table{
		header: []string{"ADDED", "ADDRESS", "REASON", "TARGET", "EXPIRES", "ID"},
		spare:  []string{"ID", "TARGET", "EXPIRES"}, ids: []string{"ADDRESS"}, whole: []string{"ADDED", "EXPIRES"},
	}
	for i := range rows {
		row := &rows[i]
		t.add(s.tableClock(row.CreatedAt), suppressedAddress(row), string(row.Reason), row.Target, s.tableClockOf(row.ExpiresAt), row.ID.String())
	}
	return t
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
	var target string
	cmd := &cobra.Command{
		Use: "check <address>", Short: "Say whether an address is suppressed, and why", Args: cobra.ExactArgs(1),
		Long: "Say whether messages to an address are suppressed, since when and why. Addresses are compared\n" +
			"without regard to case. The exit code is 0 in both cases; use --output json to distinguish them.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAddress(args[0]); err != nil {
				return err
			}
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				check, err := control.Call(cmd.Context(), caller, &control.CheckSuppression, control.CheckSuppressionRequest{Address: args[0], Target: target})
				if err != nil {
					return err
				}
				if s.output == "json" {
					return s.json(check)
				}
				row := check.Entry
				if row == nil {
					fmt.Fprintln(s.out, "not suppressed")
					return nil
				}
				event := ""
				if row.Event != nil {
					event = row.Event.String()
				}
				holds := row.Target
				if holds == "" {
					holds = "every target"
				}
				page(s.out, []pair{
					{"suppressed", "yes"}, {"reason", string(row.Reason)}, {"target", holds}, {"since", clock(row.CreatedAt)},
					{"until", timeOrEmpty(row.ExpiresAt)}, {"event", event}, {"id", row.ID.String()},
				})
				return nil
			})
		},
	}
	addSuppressionTarget(cmd, &target, "also look among those that hold for this target alone")
	return cmd
}

func checkAddress(text string) error {
	if _, err := suppression.Normalize(text); err != nil {
		return usagef("%q is %v", clean(text), err)
	}
	return nil
}

func (s *shell) suppressionsAddCommand() *cobra.Command {
	var d decision
	var as, target string
	var keep time.Duration
	cmd := &cobra.Command{
		Use: "add <address>", Short: "Send no more messages to an address", Args: cobra.ExactArgs(1),
		Long: "Send no more messages to an address. Effects for it become skipped with the reason suppressed,\n" +
			"also those whose message is rendered already. Adding an address again changes nothing, unless it\n" +
			"is suppressed for longer then. The audit does not name the address.",
		Example: "  oncegate suppressions add ann@example.com --as complaint --reason 'ticket 4711'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAddress(args[0]); err != nil {
				return err
			}
			terms, err := suppressionTerms(as, target, keep)
			if err != nil {
				return err
			}
			if err := d.check(s, "why is nothing to be sent?"); err != nil {
				return err
			}
			r := control.AddSuppressionRequest{Explained: control.Explained{Reason: d.reason}, SuppressionTerms: terms, Address: args[0]}
			return s.controlWith(cmd.Context(), s.suppressed(d, true), func(caller control.Caller) error {
				added, err := control.Call(cmd.Context(), caller, &control.AddSuppression, r)
				if err != nil {
					return err
				}
				if s.output == "json" {
					return s.json(added)
				}
				what := "suppressed"
				switch {
				case added.Extended > 0:
					what = "was suppressed already, and is for longer now"
				case added.Known > 0:
					what = "was suppressed already"
				}
				fmt.Fprintln(s.out, what)
				return nil
			})
		},
	}
	addSuppressionFlags(cmd, &as, &target, &keep)
	d.addExplanation(cmd)
	return cmd
}

func addSuppressionFlags(cmd *cobra.Command, as, target *string, keep *time.Duration) {
	cmd.Flags().StringVar(as, "as", string(suppression.Manual), "bounce, complaint, unsubscribe or manual")
	addSuppressionTarget(cmd, target, "only messages of this target (default every target)")
	cmd.Flags().DurationVar(keep, "keep", 0, "how long the address stays on the list, such as 720h; 0 is without end")
}

// suppressionTerms returns the properties of a suppression that do not depend on the address.
func suppressionTerms(as, target string, keep time.Duration) (terms control.SuppressionTerms, err error) {
	if terms.As, err = suppressionReason(as); err != nil {
		return terms, err
	}
	if keep < 0 {
		return terms, usagef("--keep %s: must not be negative", keep)
	}
	if len(target) > 63 {
		return terms, usagef("--target %q is no target's name", clean(target))
	}
	terms.Target = target
	if keep > 0 {
		terms.ExpiresAt = time.Now().Add(keep)
	}
	return terms, nil
}

func (s *shell) suppressionsRemoveCommand() *cobra.Command {
	var d decision
	var target string
	cmd := &cobra.Command{
		Use: "remove <address>", Short: "Let messages to an address be sent again", Args: cobra.ExactArgs(1),
		Long: "Let messages to an address be sent again. What was skipped stays skipped; `oncegate replay plan`\n" +
			"sends it. Without --target the general entry is removed, and entries for single targets\n" +
			"stay.\n\n" +
			"On a terminal you type the decision; elsewhere the command needs --yes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAddress(args[0]); err != nil {
				return err
			}
			if err := d.check(s, "why may messages be sent again?"); err != nil {
				return err
			}
			r := control.RemoveSuppressionRequest{Explained: control.Explained{Reason: d.reason}, Address: args[0], Target: target}
			return s.controlWith(cmd.Context(), s.suppressed(d, true), func(caller control.Caller) error {
				warn := func() { _, _ = fmt.Fprintln(s.err, "Messages to this address will be sent again.") }
				if err := s.confirm(d, "remove", warn); err != nil {
					return err
				}
				removed, err := control.Call(cmd.Context(), caller, &control.RemoveSuppression, r)
				if problemCode(err) == control.CodeNotFound {
					return &failure{text: "no such entry: the address is not suppressed, or for another target; `oncegate suppressions check` says so"}
				}
				if err != nil {
					return err
				}
				if s.output == "json" {
					return s.json(removed)
				}
				fmt.Fprintln(s.out, "removed: messages to this address are sent again")
				return nil
			})
		},
	}
	addSuppressionTarget(cmd, &target, "the entry for this target (default the general one)")
	d.add(cmd)
	return cmd
}
