package cli

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/yamltree"
)

func (s *shell) loginsCommand() *cobra.Command {
	return group("logins", "List or revoke logins to the console, or make a link that logs in once",
		s.loginsLinkCommand(), s.loginsListCommand(), s.loginsRevokeCommand())
}

func (s *shell) loginsLinkCommand() *cobra.Command {
	var d decision
	r := control.CreateLoginLinkRequest{Scopes: []string{string(control.Admin)}}
	var valid, url string
	cmd := &cobra.Command{
		Use: "link", Short: "Print a link that logs in to the console, once", Args: cobra.NoArgs,
		Long: "Print a link that logs you, or a colleague to whom you send it, in to the console, once and within\n" +
			"minutes. The login ends by itself like any other. The address is console.url, or else the private\n" +
			"listener on this machine.",
		Example: "  oncegate logins link\n" +
			"  oncegate logins link --scope read-metadata --valid 2m",
		RunE: func(cmd *cobra.Command, _ []string) error {
			life, err := yamltree.PositiveDuration(valid)
			if err != nil {
				return usagef("--valid %q: not a duration such as 10m", clean(valid))
			}
			if r.Seconds = int(life / time.Second); r.Seconds == 0 {
				return usagef("--valid %q: a link is valid for at least 1s and at most 1h", clean(valid))
			}
			base, err := s.consoleAddress(url)
			if err != nil {
				return err
			}
			if err := d.fillActor(s); err != nil {
				return err
			}
			return s.control(cmd.Context(), d.actor, func(caller control.Caller) error {
				link, err := control.Call(cmd.Context(), caller, &control.CreateLoginLink, r)
				if err != nil {
					return err
				}
				address := access.LinkAddress(base, link.Code)
				if s.output == "json" {
					return s.json(map[string]any{"url": address, "expires_at": link.ExpiresAt})
				}
				fmt.Fprintln(s.out, address)
				fmt.Fprintf(s.err, "The link works once, until %s.\n", clock(link.ExpiresAt))
				return nil
			})
		},
	}
	flags := cmd.Flags()
	requestFlags(cmd, &r)
	flags.Lookup("scope").Usage += " " + scopeNames()
	flags.StringVar(&valid, "valid", "10m", "how long the link is valid, at most 1h")
	flags.StringVar(&url, "url", "", "the address of the console (default console.url, then the private listener on this machine)")
	flags.StringVar(&d.actor, "actor", "", "who makes it "+actorDefault)
	return cmd
}

// consoleAddress returns the address at which a browser on this machine reaches the console: the
// given address, the one in the configuration, or the private listener.
func (s *shell) consoleAddress(given string) (string, error) {
	if given == "" && s.server != "" {
		return s.server, nil
	}
	if given != "" {
		if !strings.HasPrefix(given, "http://") && !strings.HasPrefix(given, "https://") {
			return "", usagef("--url %q is not an address such as https://oncegate.example", cleanURL(given))
		}
		return given, nil
	}
	if db, err := s.database(); err == nil {
		// The link exists only in this database, so an `oncegate dev` in this directory with
		// another database does not know it.
		if state, ok := s.readDevState(); ok && db.URL == state.DatabaseURL && db.Schema == state.Schema {
			return state.Admin, nil
		}
	}
	cfg, err := s.servedConfig()
	if err != nil {
		return "", usagef("the configuration does not say where the console is, since it cannot be read here (%s): give --url, such as --url http://127.0.0.1:8081", oneLine(err.Error()))
	}
	if cfg.Console.URL != "" {
		return cfg.Console.URL, nil
	}
	host, port, err := net.SplitHostPort(cfg.Listen.Admin)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	return "http://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port), nil
}

func (s *shell) loginsListCommand() *cobra.Command {
	list := newList(s, &control.ListLogins, &loginColumns, &cobra.Command{
		Short: "List who is logged in to the console, newest first",
		Long: "List who is logged in to the console, newest first. A login ends two hours after its last use, twelve\n" +
			"hours after its beginning, with its token, and when it is revoked. Prune removes it a day later.",
	})
	list.allIncludes(&list.request.All, "those that are over")
	return list.Command
}

var loginColumns = columns[*logins.Login]{
	header: []string{"BEGAN", "WHO", "BY", "SCOPES", "TENANT", "STATE", "LAST USED", "ID"},
	spare:  []string{"BY", "LAST USED"}, ids: []string{"ID"}, whole: []string{"BEGAN", "LAST USED", "STATE"},
	cells: func(login **logins.Login) []any {
		row := *login
		return []any{row.CreatedAt, row.Actor, row.Method, row.Scopes, row.Tenant, row.State, row.UsedAt, row.ID}
	},
	entry: func(login **logins.Login) listEntry {
		return listEntry{IDs: map[string]string{kindLogin: (*login).ID.String()}, Name: (*login).Actor}
	},
}

func (s *shell) loginsRevokeCommand() *cobra.Command {
	d := newDecision(s, &control.RevokeLogin, &cobra.Command{
		Use: "revoke <id>", Short: "End a login to the console", Args: cobra.ExactArgs(1),
		Long: "End a login to the console. Processes notice within seconds. A person who logged in with a token can log\n" +
			"in again until the token is revoked. On a terminal you type the decision; elsewhere the command needs\n" +
			"--yes.",
		Example: "  oncegate logins revoke 0199... --reason 'the laptop was stolen'",
	})
	d.check = func(args []string) error { d.request.ID = args[0]; return nil }
	d.warning = func() string { return fmt.Sprintf("Login %s will end.", d.request.ID) }
	d.done = func(login **logins.Login) error { return s.print("the login of %s is revoked", (*login).Actor) }
	return d.Command
}
