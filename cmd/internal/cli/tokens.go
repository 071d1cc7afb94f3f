package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/yamltree"
)

func (s *shell) tokensCommand() *cobra.Command {
	return group("tokens", "Create, list or revoke the tokens of the API and the console",
		s.tokensCreateCommand(), s.tokensListCommand(), s.tokensRevokeCommand())
}

func scopeNames() string { return control.Scopes(control.KnownScopes()).String() }

func (s *shell) tokensCreateCommand() *cobra.Command {
	var d decision
	var r control.CreateTokenRequest
	var expires string
	cmd := &cobra.Command{
		Use: "create <name>", Short: "Create a token and print it, once", Args: cobra.ExactArgs(1),
		Long: "Create a token with which a program calls the API, or a person logs in to the console. The token is\n" +
			"printed alone on stdout, this once: Oncegate keeps only its SHA-256. Its owner may do what its scopes permit:\n" +
			"  read-metadata   see everything but content\n" +
			"  read-payload    see content too: bodies, results, addresses\n" +
			"  operate         replay, discard, resolve, skip\n" +
			"  admin           everything, also tokens, erasure and what concerns the whole installation",
		Example: "  oncegate tokens create ci --scope read-metadata\n" +
			"  oncegate tokens create support --scope operate,read-payload --tenant acme --expires 8h",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.Name = args[0]; len(r.Scopes) == 0 {
				return usagef("--scope is missing: say what the token permits, such as --scope read-metadata; known are %s", scopeNames())
			}
			if r.NeverExpires, r.ExpiresAt, err = parseExpiry(expires, time.Now()); err != nil {
				return err
			}
			if err := d.fillActor(s); err != nil {
				return err
			}
			return answer(s, cmd, onDatabase{actor: d.actor}, &control.CreateToken, r, func(created *control.CreatedToken) error {
				fmt.Fprintln(s.out, created.Text)
				until := "never expires"
				if created.ExpiresAt != nil {
					until = "expires at " + clock(*created.ExpiresAt)
				}
				s.warn(fmt.Sprintf("Token %s (%s...) is shown this once; it %s.", created.Name, created.Prefix, until))
				return nil
			})
		},
	}
	requestFlags(cmd, &r)
	cmd.Flags().Lookup("scope").Usage += " " + scopeNames()
	cmd.Flags().StringVar(&expires, "expires", "90d", "how long the token works: a duration (8h, 90d), an instant (2027-01-31T12:00:00Z) or never")
	cmd.Flags().StringVar(&d.actor, "actor", "", "who creates it "+actorDefault)
	return cmd
}

// parseExpiry parses an expiry: a duration, a point in time, or never.
func parseExpiry(text string, now time.Time) (never bool, at time.Time, err error) {
	if text == "never" {
		return true, at, nil
	}
	if life, err := yamltree.PositiveDuration(text); err == nil {
		return false, now.Add(life), nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return false, at, usagef("--expires %q: neither a duration such as 90d, nor an instant such as 2027-01-31T12:00:00Z, nor never", clean(text))
	}
	return false, at, nil
}

func (s *shell) tokensListCommand() *cobra.Command {
	list := newList(s, &control.ListTokens, &tokenColumns, &cobra.Command{
		Short: "List the tokens, newest first",
		Long: "List the tokens that work, newest first. A token is shown by its first characters: the rest is stored\n" +
			"nowhere. The last use is exact to the minute.",
	})
	list.allIncludes(&list.request.All, "those that have expired or were revoked")
	return list.Command
}

var tokenColumns = columns[*tokens.Token]{
	header: []string{"CREATED", "NAME", "TOKEN", "SCOPES", "TENANT", "STATE", "EXPIRES", "LAST USED", "CREATED BY"},
	spare:  []string{"CREATED BY", "LAST USED", "CREATED"}, ids: []string{"NAME"}, whole: []string{"CREATED", "TOKEN", "EXPIRES", "LAST USED", "STATE"},
	cells: func(token **tokens.Token) []any {
		row := *token
		return []any{row.CreatedAt, row.Name, row.Prefix + "...", row.Scopes, row.Tenant, row.State, orNever(row.ExpiresAt), orNever(row.LastUsedAt), row.CreatedBy}
	},
}

// orNever returns a time for a table, and "never" for nil.
func orNever(t *time.Time) any {
	if t == nil {
		return "never"
	}
	return *t
}

func (s *shell) tokensRevokeCommand() *cobra.Command {
	d := newDecision(s, &control.RevokeToken, &cobra.Command{
		Use: "revoke <name>", Short: "End a token, and the console logins that began with it", Args: cobra.ExactArgs(1),
		Long: "End a token by its name or its id, and the console logins that began with it. Processes notice within\n" +
			"seconds. On a terminal you type the decision; elsewhere the command needs --yes.",
		Example: "  oncegate tokens revoke ci --reason 'it was in a log'",
	})
	d.check = func(args []string) error {
		if d.request.Ref = args[0]; tokens.Plausible(args[0]) {
			return usagef("that is the token itself, which is in the history of your shell now: name it, as `oncegate tokens list` does")
		}
		return nil
	}
	d.warning = func() string { return fmt.Sprintf("Token %s will stop working.", d.request.Ref) }
	d.done = func(token **tokens.Token) error { return s.print("token %s is revoked", (*token).Name) }
	return d.Command
}
