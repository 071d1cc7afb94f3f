package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

type sendFlags struct {
	url, source, secretEnv, secretFile string
	file, eventID, kind, tamper, mode  string
	duplicate                          int
	concurrent                         bool
	timeout                            time.Duration
	at                                 time.Time // zero means now
}

func (s *shell) sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send <provider>",
		Short: "Send a delivery, signed as the provider signs, and show the answer",
		Long: "Send a delivery, signed as the provider would sign it, and show the answer.\n\n" +
			"Without --url and a secret it goes to the `oncegate dev` that runs from this directory. Exits with\n" +
			"0 if every delivery was acknowledged, with 1 if one was refused, and with 75 if one is worth\n" +
			"trying again.",
		Example: "  oncegate send stripe\n" +
			"  oncegate send stripe --event-id evt_1 --duplicate 3 --concurrent\n" +
			"  oncegate send github --type push --file push.json --secret-env GITHUB_SECRET --url https://hooks.example.com/in/github\n" +
			"  oncegate send slack --tamper timestamp",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.send(cmd.Context(), args[0], f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "the `url` to send to (default the running oncegate dev, at /in/<provider>)")
	flags.StringVar(&f.source, "source", "", "take provider, secret and path from this source of the configuration")
	flags.StringVar(&f.secretEnv, "secret-env", "", "environment variable with the signing secret")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the signing secret")
	flags.StringVar(&f.file, "file", "", "send this payload instead of the provider's example; - is stdin")
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
	EventID string  `json:"event_id"`
	Status  int     `json:"status"`
	Outcome string  `json:"outcome"`
	Event   string  `json:"event,omitempty"`
	Millis  float64 `json:"ms"`
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
	request, err := draft.sign(to, f.mode, f.tamper)
	if err != nil {
		return err
	}
	out := make([]delivered, f.duplicate+1)
	if f.concurrent {
		var wg sync.WaitGroup
		for i := range out {
			wg.Go(func() { out[i] = post(ctx, request, i+1, draft.id, f.timeout) })
		}
		wg.Wait()
	} else {
		for i := range out {
			out[i] = post(ctx, request, i+1, draft.id, f.timeout)
		}
	}
	t := &table{header: []string{"#", "STATUS", "OUTCOME", "EVENT ID", "EVENT", "MS"}, spare: []string{"MS", "#"}, whole: []string{"OUTCOME"}}
	for _, d := range out {
		status := "-"
		if d.Status > 0 {
			status = fmt.Sprint(d.Status)
		}
		t.add(fmt.Sprint(d.Number), status, d.Outcome, d.EventID, d.Event, fmt.Sprintf("%.1f", d.Millis))
	}
	if err := s.show(t, out); err != nil {
		return err
	}
	return verdict(out, request.URL)
}

// verdict returns the error that determines the exit code. Failures worth retrying take precedence,
// so that a script that retries does the right thing.
func verdict(out []delivered, url string) error {
	refused, later := 0, 0
	for _, d := range out {
		switch {
		case d.Status == 0 || d.Status == http.StatusServiceUnavailable || d.Status == http.StatusTooManyRequests || d.Status >= 500:
			later++
		case d.Status < 200 || d.Status > 299:
			refused++
		}
	}
	switch {
	case later > 0:
		return tryLaterf("%d of %s got no acknowledgement from %s; is it running? try again", later, plural(len(out), "delivery", "deliveries"), cleanURL(url))
	case refused > 0:
		return &failure{text: fmt.Sprintf("%d of %s refused by %s", refused, plural(len(out), "delivery was", "deliveries were"), cleanURL(url))}
	}
	return nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// addressee is the destination of a delivery and the secret that signs it.
type addressee struct {
	provider *providers.Provider
	url      string
	secret   providers.Secret
}

func (s *shell) addressee(name string, f sendFlags) (*addressee, error) {
	if f.source != "" {
		return s.configured(name, f)
	}
	cat := new(catalog.Lazy)
	to := &addressee{provider: cat.Provider(name), url: f.url}
	if to.provider == nil {
		return nil, unknownProvider(name, cat)
	}
	state, running := s.readDevState()
	if to.url == "" {
		if !running {
			return nil, usagef("no --url, and no `oncegate dev` runs from this directory: start ./scripts/run, or name an address")
		}
		to.url = state.Public + "/in/" + name
	}
	u, err := url.Parse(to.url)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, usagef("--url %q is not an address such as http://127.0.0.1:8080/in/%s", cleanURL(to.url), clean(name))
	}
	to.secret.Name = "send"
	secret, err := s.givenSecret(f.secretEnv, f.secretFile)
	if err != nil {
		return nil, err
	}
	if secret == "" && running && strings.HasPrefix(to.url, state.Public+"/") {
		secret = devSecret(name)
	}
	to.secret.Value = []byte(secret)
	if len(to.secret.Value) == 0 {
		return nil, usagef("no secret to sign with: add --secret-env NAME, --secret-file PATH or --source NAME")
	}
	return to, nil
}

// configured returns the addressee for a source of the configuration.
func (s *shell) configured(name string, f sendFlags) (*addressee, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	source, err := findSource(cfg, f.source, name)
	if err != nil {
		return nil, err
	}
	bound, err := source.Provider.Bind(providers.Binding{Settings: source.Values()})
	if err != nil {
		return nil, usagef("%s", oneLine(err.Error()))
	}
	to := &addressee{provider: bound, url: cmp.Or(f.url, loopback(cfg.Listen.Public)+"/in/"+source.Name)}
	if keys := source.Keys(); len(keys) > 0 {
		to.secret = keys[0]
	}
	// A source that verifies with a public key has no secret that could sign.
	given, err := s.givenSecret(f.secretEnv, f.secretFile)
	if err != nil {
		return nil, err
	}
	if given != "" {
		to.secret = providers.Secret{Name: "send", Value: []byte(given)}
	}
	return to, nil
}

// loopback returns the address at which this machine reaches a listener.
func loopback(listen string) string {
	host, port, _ := strings.Cut(listen, ":")
	if i := strings.LastIndexByte(listen, ':'); i >= 0 {
		host, port = listen[:i], listen[i+1:]
	}
	if host == "" || host == "0.0.0.0" || host == "[::]" {
		host = "127.0.0.1"
	}
	return "http://" + host + ":" + port
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
	out.Event = response.Header.Get("Oncegate-Event")
	var answer struct {
		Event  string `json:"event"`
		Status string `json:"status"`
	}
	if json.Unmarshal(content, &answer) == nil && answer.Status != "" {
		out.Outcome = answer.Status
		if out.Event == "" {
			out.Event = answer.Event
		}
		return out
	}
	switch {
	case out.Status >= 200 && out.Status < 300:
		out.Outcome = "acknowledged"
	case out.Status == http.StatusServiceUnavailable || out.Status == http.StatusTooManyRequests:
		out.Outcome = "try later"
	default:
		out.Outcome = "refused"
	}
	return out
}
