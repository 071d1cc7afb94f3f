package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
)

func (s *shell) readyCommand() *cobra.Command {
	var address string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "ready", Short: "Ask the process that serves here whether it is ready; for health checks",
		Long: "Ask the process that serves with this configuration, at its private address, whether it is ready:\n" +
			"whether it has started, reaches a database that accepts commits, finds its schema and can trust\n" +
			"its clock. Exits with 0 if it is ready, with 1 if it names a fault, and with 75 if it does not answer.",
		Example: "  oncegate ready\n  oncegate ready --url http://10.0.0.7:8081",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usagef("--timeout %s: must be longer than zero, such as 3s", timeout)
			}
			at, err := s.readyAddress(address)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return s.ready(ctx, at)
		},
	}
	cmd.Flags().StringVar(&address, "url", "", "the private `url` to ask (default listen.admin of the configuration, else the running oncegate dev)")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

// readyAddress returns the address of /readyz.
func (s *shell) readyAddress(given string) (string, error) {
	if given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", usagef("--url %q is not an address such as http://127.0.0.1:8081", cleanURL(given))
		}
		return strings.TrimSuffix(given, "/") + "/readyz", nil
	}
	cfg, err := s.load()
	if err != nil {
		if state, ok := s.readDevState(); ok && s.configFile == "" {
			return state.Admin + "/readyz", nil
		}
		return "", err
	}
	host, port, err := net.SplitHostPort(cfg.Listen.Admin)
	if err != nil {
		return "", errorf(errorcode.Config, "listen.admin %q is not an address such as 127.0.0.1:8081", clean(cfg.Listen.Admin))
	}
	if port == "0" {
		return "", errorf(errorcode.Config, "listen.admin %q takes any free port: name the one it took with --url http://127.0.0.1:PORT", cfg.Listen.Admin)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on every address, including the loopback address
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz", nil
}

func (s *shell) ready(ctx context.Context, at string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return usagef("%q is not an address such as http://127.0.0.1:8081/readyz", cleanURL(at))
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy, because the server is on this machine
	response, err := client.Do(request)
	if err != nil {
		cause := err
		if inner, ok := errors.AsType[*url.Error](err); ok {
			cause = inner.Err
		}
		return errorf(errorcode.ServerUnreachable, "%s does not answer (%s): is `oncegate serve` running, and is this its listen.admin?", cleanURL(at), oneLine(cause.Error()))
	}
	defer response.Body.Close()
	var answer struct {
		Status string            `json:"status"`
		Checks map[string]string `json:"checks"`
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil || json.Unmarshal(content, &answer) != nil || answer.Status == "" {
		return errorf(errorcode.NotOncegate, "%s answered %d, and not as Oncegate does: check --url or listen.admin", at, response.StatusCode)
	}
	t := &table{header: []string{"CHECK", "STATE"}}
	for _, name := range slices.Sorted(maps.Keys(answer.Checks)) {
		t.add(name, answer.Checks[name])
	}
	if err := s.show(t, answer); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errorf(errorcode.NotReady, "%s", "the process at "+at+" is not ready"+firstProblem(answer.Checks))
	}
	return nil
}

// firstProblem returns the first failed check. The basic checks, such as the database, come before
// those that depend on them.
func firstProblem(checks map[string]string) string {
	names := append([]string{"process", "database", "commits", "gate"}, slices.Sorted(maps.Keys(checks))...)
	for _, name := range names {
		if text := checks[name]; text != "" && text != "ok" {
			return ": " + name + ": " + oneLine(text)
		}
	}
	return ""
}
