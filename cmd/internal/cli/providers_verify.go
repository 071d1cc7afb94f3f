package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// captureFlags are the flags that select a request, and the provider and secrets that verify it.
type captureFlags struct {
	request, url, at, source string
	secretEnv, secretFile    []string
	settings, keys           []string
}

func (f *captureFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.request, "request", "", "the captured request: raw HTTP, or a JSON object with method, url, headers, body; - is stdin")
	flags.StringVar(&f.url, "url", "", "the address the sender used (default what the request says)")
	flags.StringVar(&f.at, "at", "", "when it was received: Unix seconds or an instant (default what the request says, else now)")
}

func (f *captureFlags) addSecrets(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.secretEnv, "secret-env", nil, "environment variable with a secret; may be repeated")
	flags.StringArrayVar(&f.secretFile, "secret-file", nil, "file with a secret; may be repeated")
	flags.StringArrayVar(&f.settings, "setting", nil, "a setting of the provider, NAME=VALUE; may be repeated")
	flags.StringArrayVar(&f.keys, "key", nil, "keys the provider publishes, ADDRESS=FILE, instead of fetching them; may be repeated")
	flags.StringVar(&f.source, "source", "", "take secrets, settings and address from this source of the configuration")
}

// captured returns the request that the flags select.
func (s *shell) captured(f *captureFlags) (*providers.Request, error) {
	if f.request == "" {
		return nil, usagef("no --request: name a file with the captured request, or - for stdin")
	}
	req, err := s.readRequest(f.request)
	if err != nil {
		return nil, err
	}
	if f.url != "" {
		req.URL = f.url
	}
	if f.at != "" {
		if req.ReceivedAt, err = parseMoment(f.at); err != nil {
			return nil, usagef("--at: %v", err)
		}
	}
	if req.ReceivedAt.IsZero() {
		req.ReceivedAt = time.Now().UTC()
	}
	return req, nil
}

// secrets returns the secrets that the flags name. Like the server, it changes no bytes except that
// it removes one line break at the end of a file.
func (s *shell) secrets(f *captureFlags) ([]providers.Secret, error) {
	var out []providers.Secret
	for _, name := range f.secretEnv {
		value := s.env(name)
		if value == "" {
			return nil, errorf(errorcode.SecretMissing, "--secret-env: environment variable %s is not set or empty", clean(name))
		}
		out = append(out, providers.Secret{Name: "env:" + name, Value: []byte(value)})
	}
	for _, path := range f.secretFile {
		value, err := config.ReadSecretFile(path)
		if err != nil {
			return nil, errorf(errorcode.SecretMissing, "--secret-file: %v", err)
		}
		out = append(out, providers.Secret{Name: "file:" + path, Value: []byte(value)})
	}
	return out, nil
}

// verifier returns the provider, the secrets and, if --source names a source, the source's address.
func (s *shell) verifier(name string, f *captureFlags) (p *providers.Provider, all providers.Map, secrets []providers.Secret, err error) {
	if f.source == "" {
		if p, all, err = s.provider(name); err == nil {
			p, err = s.bind(p, f)
		}
		if err == nil {
			secrets, err = s.secrets(f)
		}
		return p, all, secrets, err
	}
	if len(f.secretEnv)+len(f.secretFile) > 0 {
		return nil, nil, nil, usagef("--source excludes --secret-env and --secret-file")
	}
	cfg, err := s.loadOffline()
	if err != nil {
		return nil, nil, nil, err
	}
	source, err := findSource(cfg, f.source, name)
	if err != nil {
		return nil, nil, nil, err
	}
	if f.url == "" && source.ExternalURL != "" {
		f.url = source.ExternalURL
	}
	keys, err := s.keyFiles(f)
	if err == nil {
		p, err = source.Provider.Bind(providers.Binding{Settings: source.Values(), Fetcher: keys, Asker: keys})
	}
	if err == nil {
		all, err = s.knownWith(cfg)
	}
	return p, all, source.Keys(), err
}

func findSource(cfg *config.Config, name, provider string) (*config.Source, error) {
	var known []string
	for _, source := range cfg.Sources {
		if source.Name != name {
			known = append(known, source.Name)
			continue
		}
		if source.Provider.Name() != provider {
			return nil, usagef("source %s is of provider %s, not %s", source.Name, source.Provider.Name(), clean(provider))
		}
		return source, nil
	}
	return nil, errorf(errorcode.UnknownSource, "unknown source %q; %sknown are %s", clean(name), yamltree.DidYouMean(known, name), strings.Join(known, ", "))
}

// verified is the result of `providers verify`.
type verified struct {
	Provider   string              `json:"provider"`
	Verified   bool                `json:"verified"`
	Reason     providers.Reason    `json:"reason,omitempty"`
	Detail     string              `json:"detail,omitempty"`
	Findings   []providers.Finding `json:"findings,omitempty"`
	Secret     string              `json:"secret,omitempty"`
	SignedAt   *time.Time          `json:"signed_at,omitempty"`
	IDUnsigned bool                `json:"id_unsigned,omitempty"`
	Handshake  *handshakeAnswer    `json:"handshake,omitempty"`
	Events     []inspectedEvent    `json:"events,omitempty"`
}

// handshakeAnswer is the answer to a handshake.
type handshakeAnswer struct {
	Status      int         `json:"status"`
	ContentType string      `json:"content_type,omitempty"`
	Headers     http.Header `json:"headers,omitempty"`
	Body        string      `json:"body"`
}

func newHandshakeAnswer(reply providers.Reply) *handshakeAnswer {
	return &handshakeAnswer{Status: reply.Status, ContentType: reply.ContentType, Headers: reply.Header, Body: string(reply.Body)}
}

func (s *shell) providersVerifyCommand() *cobra.Command {
	var f captureFlags
	var vectors string
	cmd := &cobra.Command{
		Use:   "verify <name>",
		Short: "Verify a captured request and say exactly why it fails",
		Long: "Verify a captured request and say exactly why it fails. The command undoes the usual mistakes, one\n" +
			"by one and two at a time, and names the one that fits.\n\n" +
			"With --vectors it runs a file of requests whose verdicts are known. Exits with 0 if the request\n" +
			"verifies, or if every verdict is as stated, and with 1 otherwise.",
		Example: "  oncegate providers verify stripe --request captured.http --secret-env STRIPE_WEBHOOK_SECRET\n" +
			"  oncegate providers verify github --request captured.json --source github --at 2026-11-20T12:00:00Z\n" +
			"  oncegate providers verify --vectors vectors.json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case vectors != "" && (len(args) > 0 || f.request != ""):
				return usagef("--vectors names providers and requests itself: leave out <name> and --request")
			case vectors != "":
				return s.runVectors(vectors)
			case len(args) == 0:
				return usagef("usage: oncegate providers verify <name> --request FILE, or --vectors FILE; see `oncegate providers verify --help`")
			}
			p, all, secrets, err := s.verifier(args[0], &f)
			if err != nil {
				return err
			}
			req, err := s.captured(&f)
			if err != nil {
				return err
			}
			if len(secrets) == 0 && p.CheckSecrets(nil) != nil {
				return errorf(errorcode.SecretMissing, "no secret to verify with: add --secret-env NAME, --secret-file PATH or --source NAME")
			}
			return s.verify(p, all, req, secrets)
		},
	}
	f.add(cmd)
	f.addSecrets(cmd)
	cmd.Flags().StringVar(&vectors, "vectors", "", "run every case of this file of test vectors")
	return cmd
}

// searchWork limits the work of a diagnosis at the command line, to about half a second.
const searchWork = 128 << 20

func (s *shell) verify(p *providers.Provider, all providers.Map, req *providers.Request, secrets []providers.Secret) error {
	out := verified{Provider: p.Name()}
	reply, handshake, err := p.Handshake(req, secrets)
	var delivery *providers.Delivery
	if err == nil && !handshake {
		delivery, err = p.Verify(req, secrets)
	}
	switch {
	case err != nil:
		var others []*providers.Provider
		for _, name := range all.Names() {
			others = append(others, all[name])
		}
		d := p.Diagnose(req, secrets, providers.DiagnoseOptions{Work: searchWork, Others: others})
		out.Reason, out.Detail, out.Findings = d.Reason, d.Detail, d.Findings
		if d.Reason == "" { // only the handshake was refused
			if refusal, ok := errors.AsType[*providers.Refusal](err); ok {
				out.Reason, out.Detail = refusal.Reason, refusal.Detail
			} else {
				out.Detail = err.Error()
			}
		}
	case handshake:
		out.Verified, out.Handshake = true, newHandshakeAnswer(reply)
	default:
		out.Verified, out.Secret, out.IDUnsigned = true, delivery.Secret, delivery.IDUnsigned
		if !delivery.SignedAt.IsZero() {
			out.SignedAt = &delivery.SignedAt
		}
		out.Events = newInspectedEvents(req, delivery.Items)
	}
	if s.output == "json" {
		err = s.json(out)
	} else {
		s.showVerified(&out)
		err = nil
	}
	if err == nil && !out.Verified {
		err = errSilent
	}
	return err
}

func (s *shell) showVerified(v *verified) {
	switch {
	case v.Handshake != nil:
		fmt.Fprintf(s.out, "verified: a handshake of %s, answered with\n", v.Provider)
		s.showAnswer(v.Handshake)
	case v.Verified:
		line := "verified: a delivery of " + v.Provider
		if v.Secret != "" {
			line += ", secret " + v.Secret
		}
		if v.SignedAt != nil {
			line += ", signed " + v.SignedAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintln(s.out, clean(line))
		s.showEvents(v.Events)
	default:
		line := "refused: " + string(v.Reason)
		if v.Reason == "" {
			line = "not verified"
		}
		if v.Detail != "" {
			line += ": " + v.Detail
		}
		fmt.Fprintln(s.out, clean(line))
		for _, finding := range v.Findings {
			fmt.Fprintln(s.out, "why: "+clean(finding.Text))
		}
	}
}

func (s *shell) showAnswer(a *handshakeAnswer) {
	page(s.out, []pair{{"status", fmt.Sprint(a.Status)}, {"content type", a.ContentType}, {"body", a.Body}})
	for _, header := range sortedHeaders(a.Headers) {
		fmt.Fprintln(s.out, clean(header.name+": "+header.value))
	}
}
