package providers

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	schemes "github.com/oncegate/oncegate/providers/scheme"
)

// input converts a request into the input of a scheme.
func (p *Provider) input(req *Request, secrets []Secret) (*schemes.Input, error) {
	settings, err := p.ready()
	if err != nil {
		return nil, err
	}
	in := &schemes.Input{
		Method: req.Method, URL: req.URL, Header: req.Header, Body: req.Body, ReceivedAt: req.ReceivedAt,
		Remote: req.Remote, Proxied: req.Proxied, Settings: settings, Keys: p.fetcher, Asker: p.asker,
		Headers: p.spec.Verify.Signature.Headers,
		Past:    time.Duration(p.spec.Verify.Timestamp.Past), Future: time.Duration(p.spec.Verify.Timestamp.Future),
	}
	for _, s := range live(secrets, req.ReceivedAt) {
		in.Secrets = append(in.Secrets, schemes.Secret{Name: s.Name, Value: s.Value})
	}
	return in, nil
}

// proof is the result of a successful verification.
type proof struct {
	secret     string
	credential string // of operations: the credential to which the secret belongs
	signedAt   time.Time
	values     url.Values
	document   []byte // verified document that the body carries; nil if the body is the document
	covered    int    // number of events of a batch that the signature covers; 0 means all
}

// verifyScheme authenticates a request with a scheme. It converts the scheme's refusal to a
// [*Refusal] and returns any other error as a fault.
func (p *Provider) verifyScheme(req *Request, secrets []Secret) (proof, error) {
	in, err := p.input(req, secrets)
	if err != nil {
		return proof{}, err
	}
	if len(in.Secrets) == 0 && !p.secretless() {
		return proof{}, refuse(ReasonMismatch, "there is no live secret")
	}
	result, err := p.scheme.Verify(in)
	if err != nil {
		return proof{}, translate(err)
	}
	return proof{secret: result.Secret, signedAt: result.SignedAt, values: result.Values, document: result.Document, covered: result.Covered}, nil
}

func translate(err error) error {
	if refusal, ok := errors.AsType[*schemes.Refusal](err); ok {
		return refuse(Reason(refusal.Reason), refusal.Detail)
	}
	return err
}

// schemeHandshake lets a scheme answer its own handshake.
func (p *Provider) schemeHandshake(req *Request, secrets []Secret) (Reply, bool, error) {
	shaker, ok := p.scheme.(schemes.Shaker)
	if !ok {
		return Reply{}, false, nil
	}
	in, err := p.input(req, secrets)
	if err != nil {
		return Reply{}, false, err
	}
	reply, ok, err := shaker.Handshake(in)
	if err != nil {
		return Reply{}, true, translate(err)
	}
	out := Reply{Status: reply.Status, ContentType: reply.ContentType, Header: reply.Header, Body: reply.Body}
	if ok && out.Header == nil {
		out.Header = http.Header{"X-Content-Type-Options": {"nosniff"}}
	}
	return out, ok, nil
}

// handshakeMethods returns the methods of a scheme's own handshake.
func (p *Provider) handshakeMethods() []string {
	if m, ok := p.scheme.(interface{ HandshakeMethods() []string }); ok {
		return m.HandshakeMethods()
	}
	return nil
}

// secretless reports whether the provider can verify without secrets.
func (p *Provider) secretless() bool {
	if p.scheme == nil {
		return p.unchecked()
	}
	s, ok := p.scheme.(schemes.Secretless)
	settings := p.settings
	if !p.bound {
		settings = p.spec.Verify.Options
	}
	return ok && s.Secretless(settings)
}

// signScheme lets the scheme sign a request.
func (p *Provider) signScheme(req *Request, secret Secret) error {
	signer, ok := p.scheme.(schemes.Signer)
	if !ok {
		return errors.New("only the provider has the key to sign with")
	}
	in, err := p.input(req, nil)
	if err != nil {
		return err
	}
	if err := signer.Sign(in, secret.Value); err != nil {
		return err
	}
	req.URL, req.Header, req.Body = in.URL, in.Header, in.Body
	return nil
}

// schemeCovers reports whether a scheme that authenticates a part of the event covers a field:
// "json:path", "form:name" or "header:Name".
func (s *Spec) schemeCovers(f *Field) bool {
	coverer, ok := schemes.Table()[s.Verify.Family].(schemes.Coverer)
	if !ok {
		return false
	}
	covered := coverer.Covers()
	switch {
	case f.Header != "":
		return slices.Contains(covered, "header:"+http.CanonicalHeaderKey(f.Header))
	case f.JSON != "":
		return slices.Contains(covered, "json:"+f.JSON)
	case f.Form != "":
		return slices.Contains(covered, "form:"+f.Form)
	}
	return false
}
