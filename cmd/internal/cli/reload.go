package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) reloadCommand() *cobra.Command {
	var r control.ReloadRequest
	cmd := &cobra.Command{
		Use: "reload", Short: "Have a server read its configuration again, without a restart", Args: cobra.NoArgs,
		Long: "Have the server that --server names read its configuration file and all secrets again. It checks the whole\n" +
			"configuration and applies it at once. Deliveries and effects that have begun end under the configuration\n" +
			"before. If the server cannot apply the configuration, it keeps the one that it has, and the command says\n" +
			"why and exits with 1. Every process is reloaded by itself; SIGHUP does the same.\n\n" +
			"The addresses of `listen`, `database.url`, `database.schema` and the roles need a restart. A password in\n" +
			"`database.url` does not.",
		Example: "  oncegate reload --server http://127.0.0.1:8081\n  oncegate reload --dry-run --server http://127.0.0.1:8081",
	}
	read := requestFlags(cmd, &r)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := read(); err != nil {
			return err
		}
		if s.server == "" {
			return usagef("which server? Name its private listener with --server, such as --server http://127.0.0.1:8081")
		}
		return answer(s, cmd, onDatabase{}, &control.ReloadConfiguration, r, s.showReload)
	}
	return cmd
}

func (s *shell) showReload(out control.Reloaded) error {
	did, now := "applied", "runs"
	if out.DryRun {
		did, now = "not applied", "would run"
	}
	if err := s.print("%s: the server %s configuration %s (before: %s)", did, now, out.Configuration, out.Before); err != nil {
		return err
	}
	restart := false
	for _, c := range out.Changes {
		needs := ""
		if c.Fixed {
			needs, restart = " (needs a restart)", true
		}
		fmt.Fprintln(s.out, "  "+clean(c.String())+needs)
	}
	if len(out.Changes) == 0 {
		fmt.Fprintln(s.out, "  no key differs")
	}
	s.warnings(out.Warnings)
	if restart {
		return errorf(errorcode.RestartNeeded, "the server cannot apply this without a restart")
	}
	return nil
}

// warnings writes the warnings about a configuration to stderr.
func (s *shell) warnings(all []string) {
	for _, warning := range all {
		fmt.Fprintln(s.err, "oncegate: warning: "+clean(warning))
	}
}
