package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

// initFlags are the flags of `oncegate init`.
type initFlags struct {
	providers, settings                           []string
	forward, idempotent, sql, publicURL, secretIn string
	file                                          string
	force                                         bool
}

func (s *shell) initCommand() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use: "init", Short: "Write a configuration file for the senders that you choose", Args: cobra.NoArgs,
		Long: "Write a commented configuration file, check it as `oncegate config check` does, and say what to do next: the\n" +
			"address to register with each sender, where its secret goes, and where its documentation is.\n\n" +
			"At a terminal it asks; with --provider it asks nothing. The file never contains a secret: it names environment\n" +
			"variables, or files with --secret-dir. Variables that are not set yet are no mistake, and are listed. A file\n" +
			"that exists is left alone without --force.\n\n" +
			"Some senders need more than a secret, such as the id of the webhook: --setting paypal.webhook_id=VALUE, once for\n" +
			"each value. The command names missing ones.",
		Example: "  oncegate init\n" +
			"  oncegate init --provider stripe --forward http://127.0.0.1:3000/hooks\n" +
			"  oncegate init --provider stripe --provider github --sql ledger.apply_event --public-url https://hooks.example.com",
		RunE: func(*cobra.Command, []string) error { return s.init(f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.providers, "provider", nil, "a sender, by its name in the catalogue; repeat it for several")
	flags.StringArrayVar(&f.settings, "setting", nil, "what a sender needs besides its secret: PROVIDER.NAME=VALUE")
	flags.StringVar(&f.forward, "forward", "", "send each event to this `address` of your service; env:NAME reads it from a variable")
	flags.StringVar(&f.idempotent, "idempotent", "", "true if that service ignores a request whose Idempotency-Key it has seen (default false)")
	flags.StringVar(&f.sql, "sql", "", "call this `function` of the database with each event, such as ledger.apply_event")
	flags.StringVar(&f.publicURL, "public-url", "", "the `address` at which senders reach this server, such as https://hooks.example.com")
	flags.StringVar(&f.secretIn, "secret-dir", "", "read the secrets from files in this `directory` instead of environment variables")
	flags.StringVar(&f.file, "file", config.DefaultFile, "the file to write")
	flags.BoolVar(&f.force, "force", false, "overwrite a file that exists")
	restrict(cmd, "idempotent", []string{"true", "false"})
	return cmd
}

func (s *shell) init(f initFlags) error {
	if s.configFile != "" {
		return usagef("init writes the file that --file names, and reads none: leave --config out")
	}
	if strings.TrimSpace(f.file) == "" {
		return usagef("--file is empty: name the file to write, such as %s", config.DefaultFile)
	}
	if err := mayWrite(f); err != nil {
		return err
	}
	if len(f.providers) == 0 {
		if !s.interactive() {
			return errorf(errorcode.ConfirmationMissing, "there is no terminal to ask at: add --provider NAME, such as `oncegate init --provider stripe --forward http://127.0.0.1:3000/hooks`")
		}
		if err := s.askInit(&f); err != nil {
			return err
		}
	}
	plan, err := newSetup(new(catalog.Lazy), f)
	if err != nil {
		return err
	}
	content := plan.file()
	if err := s.checkSetup(plan, content); err != nil {
		return err
	}
	if err := writeSetup(f, content); err != nil {
		return err
	}
	return s.showSetup(plan)
}

// mayWrite returns an error if the file exists and --force is missing.
func mayWrite(f initFlags) error {
	info, err := os.Stat(f.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return errorf(errorcode.File, "--file: %v", err)
	case info.IsDir():
		return errorf(errorcode.File, "--file %s is a directory: name a file in it, such as %s", clean(f.file), config.DefaultFile)
	case !f.force:
		return errorf(errorcode.File, "%s exists: add --force to overwrite it, or name another with --file", clean(f.file))
	}
	return nil
}

// writeSetup writes the file. Without --force it never replaces one that another process has made
// meanwhile.
func writeSetup(f initFlags, content string) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if f.force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(f.file, mode, 0o644) //nolint:gosec // the server may run as another user, and no secret is in it
	if errors.Is(err, fs.ErrExist) {
		return mayWrite(f)
	}
	if err != nil {
		return errorf(errorcode.File, "--file: %v", err)
	}
	_, err = file.WriteString(content)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.file, err)
	}
	return nil
}
