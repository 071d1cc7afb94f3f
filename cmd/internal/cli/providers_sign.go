package cli

import (
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/delivery"
	"github.com/oncegate/oncegate/providers"
)

type signFlags struct {
	captureFlags
	file, eventID, kind, format, out, method, mode string
	headers                                        []string
}

func (s *shell) providersSignCommand() *cobra.Command {
	var f signFlags
	cmd := &cobra.Command{
		Use:   "sign <name>",
		Short: "Write a request that is signed as the provider signs",
		Long: "Write a request that is signed as the provider would sign it, for every provider whose scheme can be\n" +
			"signed with the given secret. `oncegate send` signs in the same way and sends the request.\n\n" +
			"Without --file the payload is the provider's example. --request takes a whole request (raw HTTP or JSON)\n" +
			"and replaces its signature.",
		Example: "  oncegate providers sign stripe --secret-env STRIPE_WEBHOOK_SECRET --format curl\n" +
			"  oncegate providers sign github --type push --file push.json --secret-env GITHUB_SECRET --url https://hooks.example.com/in/github",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return s.providersSign(args[0], &f) },
	}
	f.add(cmd)
	f.addSecrets(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "the payload instead of the provider's example; - is stdin")
	flags.StringVar(&f.eventID, "event-id", "", "the event id (default a fresh one; with --file the payload's own)")
	flags.StringVar(&f.kind, "type", "", "the event type (default the example's)")
	flags.StringVar(&f.method, "method", "", "the HTTP method (default POST)")
	flags.StringVar(&f.mode, "mode", "", "sign in this way of the provider's (default as the headers say; providers show lists them)")
	flags.StringArrayVar(&f.headers, "header", nil, "a further header, such as 'X-Topic: a'; may be repeated")
	flags.StringVar(&f.format, "format", "http", "http (raw), json or curl")
	flags.StringVar(&f.out, "out", "", "write to this file instead of stdout")
	return cmd
}

func (s *shell) providersSign(name string, f *signFlags) error {
	if s.output == "json" {
		f.format = "json"
	}
	if f.format != "http" && f.format != "json" && f.format != "curl" {
		return usagef("--format %q is unknown; known are http, json, curl", clean(f.format))
	}
	p, _, secrets, err := s.verifier(name, &f.captureFlags)
	if err != nil {
		return err
	}
	if len(secrets) == 0 {
		return errorf(errorcode.SecretMissing, "no secret to sign with: add --secret-env NAME, --secret-file PATH or --source NAME")
	}
	req, id, err := s.unsigned(p, f)
	if err != nil {
		return err
	}
	if err := p.SignAs(f.mode, req, secrets[0], id); err != nil {
		return usagef("%v", err)
	}
	return s.writeSigned(req, f)
}

// unsigned returns the request to sign.
func (s *shell) unsigned(p *providers.Provider, f *signFlags) (*providers.Request, string, error) {
	if f.request != "" {
		if f.file != "" || f.kind != "" {
			return nil, "", usagef("--request is a whole request: leave out --file and --type")
		}
		req, err := s.captured(&f.captureFlags)
		if err == nil && f.eventID == "" && lacksSignedHeader(p, req) {
			f.eventID = delivery.FreshEventID(p.Name())
		}
		return req, f.eventID, err
	}
	at := time.Now().UTC()
	if f.at != "" {
		var err error
		if at, err = parseMoment(f.at); err != nil {
			return nil, "", usagef("--at: %v", err)
		}
	}
	address := f.url
	if address == "" {
		address = "https://localhost/in/" + p.Name()
	}
	if u, err := url.Parse(address); err != nil || u.Host == "" {
		return nil, "", usagef("--url %q is not an address such as https://hooks.example.com/in/%s", cleanURL(address), p.Name())
	}
	d, err := s.draft(p, sendFlags{file: f.file, eventID: f.eventID, kind: f.kind, at: at})
	if err != nil {
		return nil, "", err
	}
	for _, header := range f.headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, "", usagef("--header %q is not of the form 'Name: value'", clean(header))
		}
		d.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	req := &providers.Request{Method: http.MethodPost, URL: address, Header: d.Header, Body: d.Body, ReceivedAt: d.At}
	if f.method != "" {
		req.Method = strings.ToUpper(f.method)
	}
	return req, d.EventID, nil
}

func (s *shell) writeSigned(req *providers.Request, f *signFlags) error {
	out := s.out
	if f.out != "" {
		file, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return errorf(errorcode.File, "--out: %v", err)
		}
		defer file.Close()
		out = file
	}
	switch f.format {
	case "json":
		to := *s
		to.out = out
		return to.json(newCaptured(req))
	case "curl":
		_, err := out.Write([]byte(curlCommand(req)))
		return err
	default:
		_, err := out.Write(rawHTTP(req))
		return err
	}
}

// lacksSignedHeader reports whether the signature covers a header that the request does not have,
// which can only be the header of the event id.
func lacksSignedHeader(p *providers.Provider, req *providers.Request) bool {
	return slices.ContainsFunc(p.VerifySpec(req).Signed, func(part providers.Part) bool {
		return len(part.Header) > 0 && !slices.ContainsFunc(part.Header, func(name string) bool { return req.Header.Get(name) != "" })
	})
}
