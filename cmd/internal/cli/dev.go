package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

func (s *shell) devCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything with an example configuration, to try it out",
		Long: "Run everything in development mode. It migrates by itself, takes deliveries of five providers with\n" +
			"fixed secrets that everybody knows, and carries out their effects at a target inside the process.\n" +
			"It listens on 127.0.0.1 unless --listen or ONCEGATE_PUBLIC names another address. Never expose it.\n\n" +
			"The environment may define a source too, with ONCEGATE_SOURCE_PROVIDER and ONCEGATE_SOURCE_SECRET; it replaces\n" +
			"the example of its name. --config runs a configuration of yours. `oncegate send` signs with the same secrets.\n\n" +
			"--forward-to sends every event to a program of yours instead, as an ordinary forward target: signed with\n" +
			"a secret that is printed, retried, in the order of the route. The status, the time and the answer of each\n" +
			"attempt show as they come. --since makes effects for what was received before, by a replay; what was\n" +
			"forwarded already is not sent again. The routes of a configuration that --config names are not used then.\n\n" +
			"At a terminal, the key r replays the event of the last delivery. It is a replay as `oncegate replay` makes it,\n" +
			"of all effects at rest, with a new idempotency key: a target that deduplicates does the work again. Effects\n" +
			"that are still being tried are left alone. The event is not verified or recorded again.",
		Example: "  oncegate dev\n" +
			"  oncegate dev --forward-to 3000\n" +
			"  oncegate dev --forward-to localhost:3000/webhooks --since 1h",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.dev(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.forwardTo, "forward-to", "", "send every event of every source to this `address` instead: 3000 means http://localhost:3000, 3000/webhooks and complete addresses work too")
	cmd.Flags().StringVar(&f.since, "since", "", "with --forward-to, also what was received since: a duration before now (1h) or an instant")
	cmd.Flags().StringVar(&f.listen, "listen", "", "where deliveries are taken, with or without a port: 0.0.0.0 is every address of this machine")
	return cmd
}

// devFlags are the flags of `oncegate dev`.
type devFlags struct {
	listen, forwardTo, since string
}

func (s *shell) dev(ctx context.Context, f devFlags) error {
	since, err := parseInstant("--since", f.since)
	if err != nil {
		return err
	}
	if f.since != "" && f.forwardTo == "" {
		return usagef("--since is for --forward-to: say where to send what was received before")
	}
	address := ""
	if f.forwardTo != "" {
		if address, err = localAddress("--forward-to", f.forwardTo); err != nil {
			return err
		}
	}
	file, err := s.devConfigFile()
	if err != nil {
		return err
	}
	cfg, err := s.loadDev()
	if err != nil {
		return err
	}
	if address != "" {
		if err := s.forwardEverything(cfg, address); err != nil {
			return err
		}
	}
	host, port, err := listenAddress(f.listen)
	if err != nil {
		return err
	}
	place, free, err := s.devPlace()
	if err != nil {
		return err
	}
	defer free()
	s.apart(cfg, place)
	cfg.Listen.Public, cfg.Listen.Admin = atHome(cfg.Listen.Public, host, port), atHome(cfg.Listen.Admin, "", "")
	log := newHuman(s.out, cfg.Log.Level, s.colours())
	logger := slog.New(log)
	if address != "" {
		answers, err := newAttemptReader(ctx, cfg)
		if err != nil {
			return err
		}
		defer answers.close()
		log.answer = answers.answer
	}
	sink, err := startSink(ctx, s.out)
	if err != nil {
		return err
	}
	defer sink.stop()
	wrote := false
	defer func() {
		if wrote { // otherwise the file belongs to another process
			_ = os.Remove(place.statePath())
		}
	}()
	restore := func() {}
	defer func() { restore() }()
	return s.run(ctx, app.Config{
		Settings: cfg, Logger: logger, Receive: true, Work: true, DevURL: sink.url, Version: readBuild().Version, Migrate: true,
	}, nil, func(srv process) error {
		state := devState{
			Public: "http://" + reachable(srv.PublicAddr()), Admin: "http://" + reachable(srv.AdminAddr()),
			DatabaseURL: cfg.Database.URL, Schema: cfg.Database.Schema, Config: file, Sources: devSources(cfg),
		}
		if err := place.write(state); err != nil {
			return err
		}
		wrote = true
		link, err := s.devLink(ctx, cfg, srv.AdminAddr())
		if err != nil {
			return err
		}
		s.banner(state, link, srv.PublicAddr(), cfg, place)
		if address != "" {
			s.forwardBanner(address)
		}
		var keys bool
		if restore, keys = s.onKey(ctx, 'r', func() { s.replayLast(ctx, cfg, logger, log) }); keys {
			fmt.Fprintln(s.out, "The key r replays the event of the last delivery: its effects are sent again, under a new idempotency key.")
		}
		if since.IsZero() {
			return nil
		}
		return s.forwardSince(ctx, cfg, logger, since)
	})
}

// listenAddress parses a host, or a host and a port.
func listenAddress(text string) (host, port string, err error) {
	if text == "" {
		return "", "", nil
	}
	host = text
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, noAddress := netip.ParseAddr(host)
	number, noPort := strconv.ParseUint(port, 10, 16)
	if host == "" || noAddress != nil && host != "localhost" || port != "" && (noPort != nil || strconv.FormatUint(number, 10) != port) {
		return "", "", usagef("--listen %q is not an address such as 0.0.0.0 or 0.0.0.0:8080", clean(text))
	}
	return host, port, nil
}

// atHome sets the host and the port of an address if they are given. The host defaults to 127.0.0.1
// because the secrets of development are public.
func atHome(address, host, port string) string {
	ownHost, ownPort, err := net.SplitHostPort(address)
	if err != nil { // checked when the configuration was read
		return address
	}
	return net.JoinHostPort(cmp.Or(host, ownHost, "127.0.0.1"), cmp.Or(port, ownPort))
}

// banner explains what this process is and what to do next, with commands that can be pasted into
// another terminal.
func (s *shell) banner(state devState, link string, public net.Addr, cfg *config.Config, place devPlace) {
	self := "oncegate"
	if path := os.Args[0]; strings.ContainsRune(path, os.PathSeparator) {
		self = "./bin/oncegate"
	}
	if place.number > 1 {
		self = "ONCEGATE_DEV_DIR=" + place.dir + " " + self
	}
	mark := func(text string) string { return text }
	if s.colours() {
		mark = func(text string) string { return "\x1b[1;33m" + text + "\x1b[0m" }
	}
	names := make([]string, len(cfg.Sources))
	for i, source := range cfg.Sources {
		names[i] = source.Name
	}
	fmt.Fprintln(s.out)
	if s.configFile == "" {
		fmt.Fprintln(s.out, mark("DEVELOPMENT MODE")+": the secrets are known to everybody. Never expose this.")
	} else {
		fmt.Fprintln(s.out, mark("DEVELOPMENT MODE")+" with "+clean(s.configFile)+". Never expose this.")
	}
	fmt.Fprintf(s.out, "deliveries  %s/in/<source>   sources: %s\n", state.Public, strings.Join(names, ", "))
	if onlyHere(public) {
		fmt.Fprintln(s.out, "            from this machine only; to open it to others: "+self+" dev --listen 0.0.0.0")
	} else {
		fmt.Fprintln(s.out, "            "+mark("open to other machines")+", on "+public.String())
	}
	fmt.Fprintf(s.out, "admin       %s            /healthz /readyz /metrics\n", state.Admin)
	if link != "" {
		fmt.Fprintf(s.out, "console     %s\n", link)
		fmt.Fprintln(s.out, "            logs in once, within 10 minutes; for another one: "+self+" logins link")
	}
	fmt.Fprintf(s.out, "database    %s\n", config.RedactURL(state.DatabaseURL))
	if place.number > 1 {
		fmt.Fprintf(s.out, "another one runs from this directory and is left alone; this one keeps to schema %s, and\n"+
			"commands find it with ONCEGATE_DEV_DIR=%s\n", state.Schema, place.dir)
	}
	fmt.Fprintln(s.out)
	fmt.Fprintln(s.out, "Try this in another terminal, in the same directory:")
	for _, line := range s.suggestions(self, state, cfg) {
		fmt.Fprintln(s.out, "  "+line)
	}
	fmt.Fprintln(s.out, "Ctrl-C stops it. What happens shows here:")
	fmt.Fprintln(s.out)
}

// suggestions returns commands to try.
func (s *shell) suggestions(self string, state devState, cfg *config.Config) []string {
	var out []string
	if s.configFile == "" {
		out = []string{
			self + " send stripe                         # a signed Stripe event",
			self + " send stripe --event-id evt_demo --duplicate 2   # the same event three times: recorded once",
			self + " send github --file scripts/examples/github-push.json",
			self + " send slack --tamper signature       # refused: 401",
		}
	} else if len(cfg.Sources) > 0 {
		out = []string{self + " send " + cfg.Sources[0].Name + "   # a delivery, signed with the secret of the configuration"}
	}
	return append(out, self+" events list", self+" effects list", "curl -s "+state.Admin+"/readyz")
}

// onlyHere reports whether a listener can be reached only from this machine.
func onlyHere(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// reachable returns the address at which this machine reaches a listener.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return addr.String()
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}

// colours reports whether to use colors: only on a terminal, and not if NO_COLOR is set.
func (s *shell) colours() bool {
	f, ok := s.out.(*os.File)
	return ok && s.takesColours() && terminalWidth(f) > 0
}

// takesColours reports whether the user wants colours on a terminal.
func (s *shell) takesColours() bool {
	return !s.noColor && s.env("NO_COLOR") == "" && s.env("TERM") != "dumb"
}
