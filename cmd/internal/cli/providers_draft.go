package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/providers"
	drafts "github.com/oncegate/oncegate/providers/draft"
)

// draftBound is the default limit of the search for a draft, and quietBound is how long the search
// runs before it shows a bar.
const draftBound, quietBound = 30 * time.Second, time.Second

// providerName is the form of a provider's name in a configuration.
var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

type draftFlags struct {
	captureFlags
	name, out             string
	publicEnv, publicFile string
	requests              []string
	timeout               time.Duration
}

func (s *shell) providersDraftCommand() *cobra.Command {
	var f draftFlags
	cmd := &cobra.Command{
		Use:   "draft",
		Short: "Write a provider for a sender that is not in the catalogue, from one captured request",
		Long: "Write a provider for a sender that is not in the catalogue, from one captured request and its secret. The\n" +
			"command compares every header, parameter and member that can be a signature or a token with what the\n" +
			"usual ways of signing make of the request: every hash, encoding, form and reading of the secret. It\n" +
			"writes what verifies as a configuration with comments. It guesses id, type, time and sequence from names\n" +
			"and shapes, and says how sure each guess is. With several requests, for example two tries of one event, it\n" +
			"finds the members that change between tries.\n\n" +
			"The YAML goes to stdout, or into the file that --out names. It names the environment variable of the\n" +
			"secret and never contains the secret. Exits with 1 if nothing fits, and lists the attempts.",
		Example: "  oncegate providers draft --request captured.http --secret-env ACME_SECRET --out acme.yml\n" +
			"  oncegate providers draft --request - --public-key-env ACME_KEY --name acme < captured.http",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return s.providersDraft(&f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.requests, "request", nil, "a captured request: raw HTTP, or a JSON object with method, url, headers, body; - is stdin; may be repeated")
	flags.StringVar(&f.url, "url", "", "the address the sender used (default what the request says)")
	flags.StringVar(&f.at, "at", "", "when it was received: Unix seconds or an instant (default what the request says, else now)")
	flags.StringArrayVar(&f.secretEnv, "secret-env", nil, "environment variable with the secret")
	flags.StringArrayVar(&f.secretFile, "secret-file", nil, "file with the secret")
	flags.StringVar(&f.publicEnv, "public-key-env", "", "environment variable with the sender's public key: PEM, or ed25519 in hex or base64")
	flags.StringVar(&f.publicFile, "public-key-file", "", "file with the sender's public key")
	flags.StringVar(&f.name, "name", "", "the provider's name (default made of the request's headers)")
	flags.StringVar(&f.out, "out", "", "write the configuration to this file, which must not exist, instead of stdout")
	flags.DurationVar(&f.timeout, "timeout", draftBound, "how long to search at most")
	return cmd
}

func (s *shell) providersDraft(f *draftFlags) error {
	if f.name != "" && !providerName.MatchString(f.name) {
		return usagef("--name %q: a name is at most 63 of a-z, 0-9, - and _, and starts with a letter or digit", clean(f.name))
	}
	if f.timeout <= 0 {
		return usagef("--timeout %s: must be longer than zero", f.timeout)
	}
	if f.publicEnv != "" {
		f.secretEnv = append(f.secretEnv, f.publicEnv)
	}
	if f.publicFile != "" {
		f.secretFile = append(f.secretFile, f.publicFile)
	}
	if len(f.secretEnv)+len(f.secretFile) != 1 {
		return errorf(errorcode.SecretMissing, "name one secret: --secret-env NAME, --secret-file PATH, --public-key-env NAME or --public-key-file PATH")
	}
	secrets, err := s.secrets(&f.captureFlags)
	if err != nil {
		return err
	}
	var requests []*providers.Request
	for _, f.request = range f.requests {
		req, err := s.captured(&f.captureFlags)
		if err != nil {
			return err
		}
		requests = append(requests, req)
	}
	if len(requests) == 0 {
		_, err := s.captured(&f.captureFlags) // says that there is none
		return err
	}
	req := requests[0]
	f.request = f.requests[0]
	cat, err := s.catalog()
	if err != nil {
		return err
	}
	if f.name != "" && cat[f.name] != nil {
		return usagef("--name %q is in the catalogue; choose another name", f.name)
	}
	o := drafts.Options{Name: f.name, Secret: secrets[0].Value, Catalog: cat, Others: requests[1:]}
	if len(f.secretEnv) == 1 {
		o.SecretName = f.secretEnv[0]
	}
	began := time.Now()
	bar := &progress{}
	o.Continue = func(tried, total int64) bool {
		took := time.Since(began)
		if took > quietBound && bar.bar == nil {
			bar = s.progress(total, "trying ways of signing")
		}
		bar.total(total)
		bar.at(tried)
		return took < f.timeout
	}
	found, err := drafts.Make(req, o)
	if trimmed := strings.TrimRight(string(req.Body), "\r\n"); err == nil && len(found.Fits) == 0 && len(trimmed) < len(req.Body) {
		without := *req
		without.Body = []byte(trimmed)
		if again, err := drafts.Make(&without, o); err == nil && len(again.Fits) > 0 {
			found.Near = append(found.Near, "without the line break at its end, which an editor may have added, the request verifies ("+again.Fits[0].Text+"): take it away, and draft again")
		}
	}
	bar.done()
	if err != nil {
		return usagef("%v", err)
	}
	return s.drafted(f, found, time.Since(began))
}

// drafted shows the result of the search and writes the draft.
func (s *shell) drafted(f *draftFlags, r *drafts.Result, took time.Duration) error {
	failed := error(nil)
	if len(r.Fits) == 0 {
		failed = errorf(errorcode.CheckFailed, "nothing fits: %d combinations were tried in %s", r.Tried.Combinations, took.Round(100*time.Millisecond))
	}
	if failed == nil && f.out != "" {
		if err := writeNew(f.out, r.YAML); err != nil {
			return err
		}
	}
	if s.output == "json" {
		err := s.json(map[string]any{
			"name": r.Name, "looks_like": emptyList(r.Looks), "fits": emptyList(r.Fits), "near": emptyList(r.Near),
			"guesses": emptyList(r.Guesses), "tried": r.Tried, "yaml": r.YAML,
		})
		return errors.Join(err, failed)
	}
	// stdout may be redirected to a file, so the explanation goes to stderr.
	say := s.err
	if f.out != "" || failed != nil {
		say = s.out
	}
	lines := found(r)
	if failed != nil {
		lines = append(lines, missed(r)...)
	} else {
		lines = append(lines, s.next(f, r)...)
	}
	for _, line := range lines {
		fmt.Fprintln(say, clean(line))
	}
	if failed == nil && f.out == "" {
		if _, err := io.WriteString(s.out, r.YAML); err != nil {
			return fmt.Errorf("writing the draft: %w", err)
		}
	}
	return failed
}

// found describes the request, one fact per line.
func found(r *drafts.Result) []string {
	var out []string
	for i, look := range r.Looks {
		switch {
		case i > 2:
		case look.Verified:
			out = append(out, fmt.Sprintf("this looks like `%s` (%s), and verifies as that: use provider: %s, whose ids, answers and windows are known", look.Name, look.Why, look.Name))
		default:
			out = append(out, fmt.Sprintf("this has the headers of `%s` (%s), but does not verify as that with this secret: `oncegate providers verify %s` says why", look.Name, look.Why, look.Name))
		}
	}
	for i := range r.Fits {
		fit := &r.Fits[i]
		word := "fits"
		switch {
		case i == 0 && len(r.Fits) > 1:
			word = "fits, and is the safest (" + safer(fit) + ")"
		case i > 0:
			word = "fits as well (" + safer(fit) + ")"
		}
		out = append(out, word+": "+fit.Text)
		if i == 0 {
			for _, note := range fit.Notes {
				out = append(out, "mind: "+note)
			}
		}
	}
	for _, near := range r.Near {
		out = append(out, "near: "+near)
	}
	for _, g := range r.Guesses {
		line := g.What + ": "
		if g.Where != "" {
			line += g.Where + ", " + g.Sure + ": "
		}
		out = append(out, line+g.Why)
	}
	return out
}

// safer describes the advantages of one way of signing.
func safer(f *drafts.Fit) string {
	text := map[string]string{"body": "covers the content", "part": "covers a part of the content", "origin": "says who sends, not what"}[f.Covers]
	if f.SignsTime {
		text += ", signs a time"
	}
	return text
}

// next explains what to do with the draft.
func (s *shell) next(f *draftFlags, r *drafts.Result) []string {
	file := f.out
	if file == "" {
		file = r.Name + ".yml"
	}
	secret := "--secret-file " + strings.Join(f.secretFile, "")
	if len(f.secretEnv) > 0 {
		secret = "--secret-env " + f.secretEnv[0]
	}
	out := []string{fmt.Sprintf("checked: the draft verifies the request, and refuses it with another secret (%d combinations were tried)", r.Tried.Combinations)}
	if f.out != "" {
		out = append(out, "written to "+f.out)
	}
	return append(out,
		fmt.Sprintf("next: oncegate providers show %s --resolved --config %s", r.Name, file),
		fmt.Sprintf("next: oncegate providers verify %s --config %s --request %s %s", r.Name, file, f.request, secret))
}

// missed explains what was tried and what to check.
func missed(r *drafts.Result) []string {
	out := []string{}
	list := func(what string, values []string) {
		if len(values) == 0 {
			values = []string{"none"}
		}
		out = append(out, "tried "+what+": "+strings.Join(values, "; "))
	}
	list("signatures in", r.Tried.Carriers)
	list("keys", r.Tried.Keys)
	list("what is signed", r.Tried.Forms)
	out = append(out, "tried hashes: SHA-1, SHA-256, SHA-384, SHA-512 and MD5, as HMAC and as plain digests, where a signature has their length; "+
		"the secret itself in headers, query and body; tokens (JWT); RFC 9421; every provider of the catalogue whose way of signing is its own")
	if r.Tried.Cut {
		out = append(out, "the search ended before everything was tried: --timeout extends it")
	}
	if len(r.Tried.Carriers) == 0 {
		out = append(out, "no header, parameter or member has the length of a signature: was the request captured with all its headers?")
	}
	return append(out,
		"look in the sender's documentation for: which header has the signature; what exactly is signed, in which order and with what between (address, method, time, an id); "+
			"the hash and the encoding; whether the secret is decoded before (base64, hex) and which one it is, where there are several",
		"look at the capture: the body must be byte for byte the sent one, and the address the sender's (--url)")
}

// writeNew writes a file and returns an error if it already exists.
func writeNew(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return errorf(errorcode.File, "--out %s: the file is there already; name another one", clean(path))
	}
	if err != nil {
		return errorf(errorcode.File, "--out: %v", err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the draft: %w", err)
	}
	return nil
}
