package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) sourcesTestCommand() *cobra.Command {
	var d decision
	var ask control.TestSourceRequest
	cmd := &cobra.Command{
		Use: "test <name>", Short: "Have a server send itself a test delivery of a source", Args: cobra.ExactArgs(1),
		Long: "Have a server send itself the example of the source's provider, signed with the source's newest\n" +
			"secret. The delivery becomes an event, and the routes of the source act on it.\n\n" +
			"A server sends it: --server names one. With --dry-run the example is only signed and verified, with\n" +
			"the secrets of the server or, without --server, of the configuration here.\n\n" +
			"Exits with 0 if the delivery was acknowledged, with 1 if it was refused, and with 75 if it is worth\n" +
			"trying again. To send over the network, as the provider does, use `oncegate send`.",
		Example: "  oncegate sources test stripe --dry-run\n" +
			"  oncegate sources test stripe --server http://127.0.0.1:8081 --reason 'a new secret'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if ask.Source = args[0]; s.server == "" && !ask.DryRun {
				return usagef("a server sends the delivery: name one with --server, check the secret with --dry-run, or use `oncegate send`")
			}
			if !ask.DryRun {
				if err := d.check(s, control.TestSource.Why); err != nil {
					return err
				}
			}
			ask.Reason = d.reason
			return s.controlWith(cmd.Context(), onDatabase{actor: d.actor, settings: (*shell).servedConfig}, func(caller control.Caller) error {
				found, err := control.Call(cmd.Context(), caller, &control.TestSource, ask)
				if err != nil {
					return refusedRequest(err)
				}
				return s.showTest(ask.Source, &found, ask.DryRun)
			})
		},
	}
	requestFlags(cmd, &ask)
	d.addExplanation(cmd)
	return cmd
}

// showTest shows the outcome of a test delivery. It returns an error unless the delivery was
// acknowledged.
func (s *shell) showTest(source string, found *control.TestDelivery, dry bool) error {
	if s.output == "json" {
		if err := s.json(found); err != nil {
			return err
		}
	} else {
		pairs := []pair{{"event id", found.EventID}, {"type", found.Type}, {"verified", "yes"}}
		if !dry {
			pairs = append(pairs, pair{"status", fmt.Sprint(found.Status)}, pair{"outcome", found.Outcome}, pair{"event", found.Event})
		}
		page(s.out, pairs)
	}
	switch {
	case dry || found.Status >= 200 && found.Status < 300:
		return nil
	case found.Status >= 500 || found.Status == http.StatusTooManyRequests:
		return errorf(errorcode.NotAcknowledged, "the server did not record the delivery (%d); `oncegate status --server ...` says how it is", found.Status)
	}
	return errorf(errorcode.DeliveryRefused, "the delivery was refused with %d: `oncegate refusals list --source %s` says why", found.Status, clean(source))
}
