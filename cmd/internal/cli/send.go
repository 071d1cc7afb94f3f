package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/delivery"
	"github.com/oncegate/oncegate/providers"
)

type sendFlags struct {
	url, source, secretEnv, secretFile string
	file, eventID, kind, tamper, mode  string
	duplicate                          int
	concurrent                         bool
	timeout                            time.Duration
	at                                 time.Time // zero means now

	fixture   string
	all, list bool
	payload   *delivery.Fixture // the fixture to send instead of the example; nil is none
}

func (s *shell) sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send [provider | source]",
		Short: "Send a delivery, signed as the provider signs, and show the answer",
		Long: "Send a delivery, signed as the provider would sign it, and show the answer.\n\n" +
			"Without --url it goes to the `oncegate dev` that runs from this directory, else to the server of the\n" +
			"configuration on this machine. It is signed with the secret that the source has there: name the source, or\n" +
			"the provider if only one source is of it. The variables that the configuration names must be set here, too.\n\n" +
			"The payload is the provider's example, a file, or with --fixture one that looks like a real one, with\n" +
			"invented content; --list shows them. --all sends one delivery to each source.\n\n" +
			"Exits with 0 if every delivery was acknowledged, with 1 if one was refused, and with 75 if one is worth\n" +
			"trying again.",
		Example: "  oncegate send stripe\n" +
			"  oncegate send stripe --event-id evt_1 --duplicate 3 --concurrent\n" +
			"  oncegate send --fixture github-push\n" +
			"  oncegate send --all\n" +
			"  oncegate send github --type push --file push.json --secret-env GITHUB_SECRET --url https://hooks.example.com/in/github\n" +
			"  oncegate send slack --tamper timestamp",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.chooseSend(cmd, args, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "the `url` to send to (default the running oncegate dev, at /in/<provider>)")
	flags.StringVar(&f.source, "source", "", "take provider, secret and path from this source of the configuration")
	flags.StringVar(&f.secretEnv, "secret-env", "", "environment variable with the signing secret")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the signing secret")
	flags.StringVar(&f.file, "file", "", "send this payload instead of the provider's example; - is stdin")
	flags.StringVar(&f.fixture, "fixture", "", "send the payload of this `name`, or the one of this provider; help lists them")
	flags.BoolVar(&f.list, "list", false, "list the fixtures, and send nothing")
	flags.BoolVar(&f.all, "all", false, "send one delivery to each source")
	flags.StringVar(&f.eventID, "event-id", "", "the event id (default a fresh one; with --file the payload's own)")
	flags.StringVar(&f.kind, "type", "", "the event type (default the example's)")
	flags.StringVar(&f.mode, "mode", "", "sign in this way of the provider's (default as the headers say; providers show lists them)")
	flags.StringVar(&f.tamper, "tamper", "", "spoil the delivery: body, signature or timestamp")
	flags.IntVar(&f.duplicate, "duplicate", 0, "send the same delivery this many times more")
	flags.BoolVar(&f.concurrent, "concurrent", false, "send all at once, not one after another")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "longest wait for one answer")
	return cmd
}

// delivered is one line of the output of send.
type delivered struct {
	Number  int     `json:"number"`
	Source  string  `json:"source,omitempty"`
	EventID string  `json:"event_id"`
	Status  int     `json:"status"`
	Outcome string  `json:"outcome"`
	Event   string  `json:"event,omitempty"`
	Millis  float64 `json:"ms"`
}

// notSent is the outcome of a source that `send --all` cannot send to.
const notSent = "not sent"

// chooseSend runs the variant of the command that the flags select.
func (s *shell) chooseSend(cmd *cobra.Command, args []string, f sendFlags) error {
	if f.list || f.fixture == "help" {
		if others := changedFlags(cmd, "list", "fixture"); len(args) > 0 || len(others) > 0 {
			return usagef("--list sends nothing: leave out %s", strings.Join(append(args, others...), ", "))
		}
		return s.listFixtures()
	}
	if f.all {
		if others := changedFlags(cmd, "all", "timeout"); len(args) > 0 || len(others) > 0 {
			return usagef("--all sends to each source: leave out %s", strings.Join(append(args, others...), ", "))
		}
		return s.sendAll(cmd.Context(), f)
	}
	if cmd.Flags().Changed("fixture") {
		if f.file != "" {
			return usagef("--fixture and --file exclude each other")
		}
		var err error
		if f.payload, err = delivery.FindFixture(clean(f.fixture)); err != nil {
			return errorf(errorcode.UnknownProvider, "--fixture %v", err)
		}
		if len(args) == 0 {
			args = []string{f.payload.Provider}
		}
	}
	if len(args) == 0 {
		return usagef("say what to send: a provider or a source such as `oncegate send stripe`, --fixture NAME, or --all; see `oncegate send --help`")
	}
	return s.send(cmd.Context(), args[0], f)
}

// changedFlags returns the flags of the command that were given, except some, as they are written.
func changedFlags(cmd *cobra.Command, except ...string) []string {
	var out []string
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && !slices.Contains(except, flag.Name) {
			out = append(out, "--"+flag.Name)
		}
	})
	return out
}

func (s *shell) send(ctx context.Context, name string, f sendFlags) error {
	if f.duplicate < 0 || f.duplicate > 10_000 {
		return usagef("--duplicate %d: must be from 0 to 10000", f.duplicate)
	}
	if f.secretEnv != "" && f.secretFile != "" {
		return usagef("--secret-env and --secret-file exclude each other")
	}
	to, err := s.addressee(name, f)
	if err != nil {
		return err
	}
	draft, err := s.draft(to.provider, f)
	if err != nil {
		return err
	}
	request, err := signFor(to, draft, f.mode, f.tamper)
	if err != nil {
		return err
	}
	out := make([]delivered, f.duplicate+1)
	if f.concurrent {
		var wg sync.WaitGroup
		for i := range out {
			wg.Go(func() { out[i] = post(ctx, request, i+1, draft.EventID, f.timeout) })
		}
		wg.Wait()
	} else {
		for i := range out {
			out[i] = post(ctx, request, i+1, draft.EventID, f.timeout)
		}
	}
	if err := s.showDelivered(out); err != nil {
		return err
	}
	return verdict(out, request.URL)
}

// showDelivered shows deliveries, with their sources if there are several.
func (s *shell) showDelivered(out []delivered) error {
	t := &table{header: []string{"#", "STATUS", "OUTCOME", "EVENT ID", "EVENT", "MS"}, spare: []string{"MS", "#"}, whole: []string{"OUTCOME"}}
	named := len(out) > 0 && out[0].Source != ""
	if named {
		t.header = slices.Insert(t.header, 1, "SOURCE")
	}
	for _, d := range out {
		status := "-"
		if d.Status > 0 {
			status = fmt.Sprint(d.Status)
		}
		cells := []string{fmt.Sprint(d.Number), status, d.Outcome, d.EventID, d.Event, fmt.Sprintf("%.1f", d.Millis)}
		if named {
			cells = slices.Insert(cells, 1, d.Source)
		}
		t.add(cells...)
	}
	return s.show(t, out)
}

// verdict returns the error that determines the exit code. Failures worth retrying take precedence,
// so that a script that retries does the right thing.
func verdict(out []delivered, url string) error {
	refused, later := 0, 0
	for _, d := range out {
		switch {
		case d.Outcome == notSent:
		case d.Status == 0 || d.Status == http.StatusServiceUnavailable || d.Status == http.StatusTooManyRequests || d.Status >= 500:
			later++
		case d.Status < 200 || d.Status > 299:
			refused++
		}
	}
	switch {
	case later > 0:
		return errorf(errorcode.NotAcknowledged, "%d of %s got no acknowledgement from %s; is it running? try again", later, plural(len(out), "delivery", "deliveries"), cleanURL(url))
	case refused > 0:
		return errorf(errorcode.DeliveryRefused, "%d of %s refused by %s", refused, plural(len(out), "delivery was", "deliveries were"), cleanURL(url))
	}
	return nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// post sends the request once.
func post(ctx context.Context, r *providers.Request, number int, id string, timeout time.Duration) delivered {
	out := delivered{Number: number, EventID: id}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		out.Outcome = "not sent"
		return out
	}
	request.Header = r.Header.Clone()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	start := time.Now()
	response, err := client.Do(request)
	out.Millis = float64(time.Since(start).Microseconds()) / 1000
	if err != nil {
		out.Outcome = "no answer"
		if errors.Is(err, context.DeadlineExceeded) {
			out.Outcome = "no answer in time"
		}
		return out
	}
	defer response.Body.Close()
	content, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	out.Status = response.StatusCode
	out.Outcome, out.Event = delivery.Outcome(out.Status, response.Header, content)
	return out
}
