package doctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/config"
)

// unknownSource is a name that no source of a configuration has, because it contains an upper-case letter. A receiver answers it 404
// and records nothing.
const unknownSource = "Doctor"

// public sends two requests to the public address: a GET of a source, which a receiver answers 405, and a body as large as the largest
// source takes to a source that does not exist, which a receiver answers 404. Neither records an event.
func public(ctx context.Context, cfg *Config) ([]Finding, error) {
	at, err := url.Parse(cfg.PublicURL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, errors.New("the public address is not a URL such as https://hooks.example.com")
	}
	served := slices.IndexFunc(cfg.Settings.Sources, (*config.Source).OverHTTP)
	if served < 0 {
		return nil, errors.New("the configuration has no source to ask for")
	}
	client := &http.Client{
		Transport:     &http.Transport{DialContext: (&net.Dialer{Resolver: cfg.Resolver}).DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       checkTimeout,
	}
	defer client.CloseIdleConnections()
	reply, err := ask(ctx, client, http.MethodGet, at.JoinPath("in", cfg.Settings.Sources[served].Name), nil)
	if err != nil {
		return []Finding{{State: Fault, Subject: at.Host, Text: "no answer: " + cause(errors.Unwrap(err)), Remedy: "correct the name, the certificate or the proxy before the receivers"}}, nil
	}
	found := certificate(cfg, at, reply)
	if reply.status != http.StatusMethodNotAllowed || reply.allow != http.MethodPost {
		return append(found, Finding{
			State: Fault, Subject: at.Host, Text: fmt.Sprintf("the address answers %d where a receiver answers 405: it leads elsewhere, to a process with another configuration, or a proxy changes the path", reply.status),
			Remedy: "have the proxy pass /in/ on unchanged, with the Host header that the sender used",
		}), nil
	}
	if reply.addressExpected == "false" {
		found = append(found, Finding{
			State: Warning, Subject: at.Host, Text: "a receiver sees another address than senders use, so deliveries are refused whose signature covers the address",
			Remedy: "have the proxy pass Host and X-Forwarded-Proto on and name it in listen.trusted_proxies, or set external_url of the source",
		})
	}
	largest := largestBody(cfg.Settings)
	reply, err = ask(ctx, client, http.MethodPost, at.JoinPath("in", unknownSource), make([]byte, largest))
	switch {
	case err != nil:
		found = append(found, Finding{State: Warning, Subject: at.Host, Text: fmt.Sprintf("a body of %d bytes was not answered: %s", largest, cause(errors.Unwrap(err))), Remedy: "raise the proxy's limit of bodies (nginx: client_max_body_size)"})
	case reply.status != http.StatusNotFound:
		found = append(found, Finding{
			State: Fault, Subject: at.Host, Text: fmt.Sprintf("a body of %d bytes, which a source takes, is answered %d before it reaches a receiver", largest, reply.status),
			Remedy: "raise the proxy's limit of bodies (nginx: client_max_body_size)",
		})
	}
	return found, nil
}

// answer is what an address answered.
type answer struct {
	status int
	allow  string               // the methods that it takes
	tls    *tls.ConnectionState // nil without TLS

	addressExpected string // "false" if a receiver sees another address
}

// ask sends a request and reads the whole answer.
func ask(ctx context.Context, client *http.Client, method string, at *url.URL, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set(receiver.HeaderExpectAddress, at.String())
	reply, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer reply.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(reply.Body, 1<<20))
	return answer{reply.StatusCode, reply.Header.Get("Allow"), reply.TLS, reply.Header.Get(receiver.HeaderAddressExpected)}, err
}

// certificate finds a public address without TLS, and a certificate that ends soon.
func certificate(cfg *Config, at *url.URL, reply answer) []Finding {
	if reply.tls == nil {
		return []Finding{{
			State: Warning, Subject: at.Host, Text: "senders reach it without TLS, so others on the way can read what they deliver",
			Remedy: "put a proxy with a certificate before it, and give senders its https address",
		}}
	}
	if end := reply.tls.PeerCertificates[0].NotAfter; end.Sub(cfg.Now()) < expiresSoon {
		return []Finding{{State: Warning, Subject: at.Host, Text: "its certificate ends at " + end.UTC().Format(time.RFC3339), Remedy: "renew the certificate"}}
	}
	return nil
}

// largestBody returns how large a body the most generous source takes, in bytes.
func largestBody(settings *config.Config) int64 {
	largest := int64(0)
	for _, s := range settings.Sources {
		if s.OverHTTP() {
			largest = max(largest, cmp.Or(s.MaxBody, s.Provider.Limits().MaxBody))
		}
	}
	return largest
}
