package cli

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/config"
)

// serverTimeout limits one request to a server, which responds within 25 s.
const serverTimeout = 40 * time.Second

// withoutServer lists the commands, or their first words, that work on this machine, on a
// configuration or as a sender. All others use the server that --server names.
var withoutServer = []string{
	"call", "config", "dev", "drill", "explain", "history", "init", "keys activate", "keys remove", "keys reseal", "keys rotate", "migrate", "providers draft", "providers inspect",
	"providers sign", "providers verify", "ready", "send", "serve", "sources move", "version",
}

// addServer adds the flag that names a server to every command.
func (s *shell) addServer(root *cobra.Command) {
	root.PersistentFlags().StringVar(&s.server, "server", "", "ask the private listener of this server, with the token in $ONCEGATE_TOKEN, instead of the database")
}

// checkServer returns an error if --server is used with a command that ignores it, or is not an
// address.
func (s *shell) checkServer(cmd *cobra.Command) error {
	path := strings.TrimPrefix(cmd.CommandPath(), "oncegate ")
	switch {
	case s.server == "":
		return nil
	case slices.ContainsFunc(withoutServer, func(without string) bool { return path == without || strings.HasPrefix(path, without+" ") }):
		return usagef("`oncegate %s` asks no server: leave --server out", path)
	}
	at, err := url.Parse(s.server)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || strings.Trim(at.Path, "/") != "" {
		return usagef("--server %q is not the address of a private listener such as http://127.0.0.1:8081", cleanURL(s.server))
	}
	return nil
}

// client returns a client for the server that --server names.
func (s *shell) client() (*api.Client, error) {
	token := s.env("ONCEGATE_TOKEN")
	if path := s.env("ONCEGATE_TOKEN_FILE"); token == "" && path != "" {
		var err error
		if token, err = config.ReadSecretFile(path); err != nil {
			return nil, errorf(errorcode.TokenMissing, "ONCEGATE_TOKEN_FILE: %v", err)
		}
	}
	if token == "" {
		return nil, errorf(errorcode.TokenMissing, "--server needs a token: set ONCEGATE_TOKEN; `oncegate tokens create` on the database makes one")
	}
	return &api.Client{Server: s.server, Token: token, Database: s.databaseName, HTTP: &http.Client{Timeout: serverTimeout}}, nil
}
