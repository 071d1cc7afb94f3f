package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) suppressionsCommand() *cobra.Command {
	return group("suppressions", "List, check, add, import or remove addresses to which no message is sent",
		s.suppressionsListCommand(), s.suppressionsCheckCommand(), s.suppressionsAddCommand(), s.suppressionsImportCommand(), s.suppressionsRemoveCommand())
}

// withSuppressions does something with the suppressed addresses, which it reads through pool.
func (s *shell) withSuppressions(open func(context.Context) (*pgxpool.Pool, error), cmd *cobra.Command, do func(context.Context, *suppression.Store) error) error {
	pool, err := open(cmd.Context())
	if err != nil {
		return err
	}
	defer pool.Close()
	keys, err := s.keyring()
	if err != nil {
		return err
	}
	var kept config.Suppressions
	if cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, DatabaseOnly: true}); err == nil { // `oncegate dev` has none
		kept = cfg.Suppressions
	}
	store, err := suppression.New(suppression.Config{Pool: pool, Keyring: keys, HashOnly: kept.HashOnly})
	if err != nil {
		return err
	}
	return do(cmd.Context(), store)
}

// suppressionReason reads --as.
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
			since, before, err := f.parse(nil)
			if err != nil {
				return err
			}
			filter := suppression.Filter{Target: target, Since: since}
			if as != "" {
				if filter.Reason, err = suppressionReason(as); err != nil {
					return err
				}
			}
			return s.withSuppressions(s.openPool, cmd, func(ctx context.Context, store *suppression.Store) error {
				return showList(s, cmd, &f.pageFlags, listing[suppression.Row]{draw: s.suppressionTable, page: func(p control.PageRequest) (page inbox.Page[suppression.Row], err error) {
					filter.Cursor, filter.Before, filter.Limit = p.After, before, p.Limit
					return store.List(ctx, filter)
				}})
			})
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "only those suppressed as bounce, complaint, unsubscribe or manual")
	addSuppressionTarget(cmd, &target, "only those that hold for this target alone")
	f.addSince(cmd, "suppressed ")
	f.addPage(cmd)
	return cmd
}

func (s *shell) suppressionTable(rows []suppression.Row) *table {
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

// suppressedAddress shows an address, or what stands for one that is not kept or cannot be read.
func suppressedAddress(row *suppression.Row) string {
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
			"without regard to case. The exit code is 0 in both cases; --output json tells them apart.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAddress(args[0]); err != nil {
				return err
			}
			return s.withSuppressions(s.openPool, cmd, func(ctx context.Context, store *suppression.Store) error {
				row, err := store.Check(ctx, target, args[0])
				if err != nil {
					return err
				}
				if s.output == "json" {
					return s.json(struct {
						Suppressed bool             `json:"suppressed"`
						Entry      *suppression.Row `json:"entry,omitempty"`
					}{row != nil, row})
				}
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
			entry, err := suppressionEntry(as, target, keep)
			if err != nil {
				return err
			}
			if err := d.check(s, "why is nothing to be sent?"); err != nil {
				return err
			}
			entry.Address = args[0]
			return s.withSuppressions(s.openForChange, cmd, func(ctx context.Context, store *suppression.Store) error {
				added, err := store.Add(ctx, []suppression.Entry{entry}, suppression.Decision{Actor: d.actor, Reason: d.reason})
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
	cmd.Flags().DurationVar(keep, "keep", 0, "how long the address stays on the list, such as 720h; 0 is for ever")
}

// suppressionEntry makes the part of an entry that does not depend on its address.
func suppressionEntry(as, target string, keep time.Duration) (e suppression.Entry, err error) {
	if e.Reason, err = suppressionReason(as); err != nil {
		return e, err
	}
	if keep < 0 {
		return e, usagef("--keep %s: must not be negative", keep)
	}
	if len(target) > 63 {
		return e, usagef("--target %q is no target's name", clean(target))
	}
	e.Target = target
	if keep > 0 {
		e.Expires = time.Now().Add(keep)
	}
	return e, nil
}

func (s *shell) suppressionsRemoveCommand() *cobra.Command {
	var d decision
	var target string
	cmd := &cobra.Command{
		Use: "remove <address>", Short: "Let messages to an address be sent again", Args: cobra.ExactArgs(1),
		Long: "Let messages to an address be sent again. What was skipped stays skipped; `oncegate replay plan`\n" +
			"sends it. Without --target the entry for every target is removed, and those for single targets\n" +
			"stay.\n\n" +
			"On a terminal you type the decision; elsewhere the command needs --yes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAddress(args[0]); err != nil {
				return err
			}
			if err := d.check(s, "why may messages be sent again?"); err != nil {
				return err
			}
			return s.withSuppressions(s.openForChange, cmd, func(ctx context.Context, store *suppression.Store) error {
				warn := func() { _, _ = fmt.Fprintln(s.err, "Messages to this address will be sent again.") }
				if err := s.confirm(d, "remove", warn); err != nil {
					return err
				}
				err := store.Remove(ctx, target, args[0], suppression.Decision{Actor: d.actor, Reason: d.reason})
				if errors.Is(err, inbox.ErrNotFound) {
					return &failure{text: "no such entry: the address is not suppressed, or for another target; `oncegate suppressions check` says so"}
				}
				if err != nil {
					return err
				}
				if s.output == "json" {
					return s.json(map[string]bool{"removed": true})
				}
				fmt.Fprintln(s.out, "removed: messages to this address are sent again")
				return nil
			})
		},
	}
	addSuppressionTarget(cmd, &target, "the entry for this target (default the one for every target)")
	d.add(cmd)
	return cmd
}
