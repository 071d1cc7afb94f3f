package providers

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
)

// credential returns the credential of the request in the form of the configured secret: a token,
// or user:password.
func (p *Provider) credential(req *Request) (value, where string, err *Refusal) {
	for i := range p.spec.Verify.Credential {
		c := &p.spec.Verify.Credential[i]
		if c.Scheme == "query" || c.Scheme == "json" || c.Scheme == "form" {
			if value, ok := p.inside(req, c); ok && value != "" {
				return value, c.Scheme + " " + c.Name, nil
			}
			continue
		}
		text, name, err := header(req, []string{c.header()})
		if err != nil {
			return "", "", err
		}
		if name == "" {
			continue
		}
		switch c.Scheme {
		case "header":
			rest, ok := strings.CutPrefix(text, c.Prefix)
			if !ok || rest == "" {
				continue
			}
			return rest, "header " + name, nil
		case "bearer", "basic":
			kind, rest, ok := strings.Cut(text, " ")
			if !ok || !strings.EqualFold(kind, c.Scheme) {
				continue
			}
			rest = strings.Trim(rest, " ")
			if c.Scheme == "basic" {
				plain, err := base64.StdEncoding.Strict().DecodeString(rest)
				if err != nil || !strings.Contains(string(plain), ":") {
					return "", "", refuse(ReasonMalformed, "header "+name+" has no basic credential that can be read")
				}
				rest = string(plain)
			}
			if rest == "" {
				return "", "", refuse(ReasonMalformed, "header "+name+" has an empty credential")
			}
			return rest, "header " + name, nil
		}
	}
	return "", "", nil
}

// inside reads a credential from the address or the content.
func (p *Provider) inside(req *Request, c *CredentialSpec) (string, bool) {
	at := p.newLocator(req)
	switch c.Scheme {
	case "json":
		return at.json(c.Name)
	case "form":
		return at.formField(c.Name)
	}
	return at.queryField(c.Name)
}

func (c *CredentialSpec) header() string {
	if c.Header == "" {
		return "Authorization"
	}
	return c.Header
}

// verifyCredential compares digests, so that its duration depends on neither content nor length of
// a secret. It returns the names of the matching secret and of its credential.
func (p *Provider) verifyCredential(req *Request, secrets []Secret) (secret, credential string, err *Refusal) {
	value, name, err := p.credential(req)
	if err != nil {
		return "", "", err
	}
	if name == "" {
		for i := range p.spec.Verify.Credential {
			h := p.spec.Verify.Credential[i].header()
			if req.Header.Get(h) != "" {
				return "", "", refuse(ReasonMalformed, "header "+h+" has no credential of the scheme expected")
			}
		}
		return "", "", refuse(ReasonUnsigned, "the credential is missing")
	}
	got := sha256.Sum256([]byte(value))
	found := false
	for _, known := range liveAtMost(secrets, req.ReceivedAt, p.maxSecrets()) {
		want := sha256.Sum256(known.Value)
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 && !found {
			secret, credential, found = known.Name, known.credentialName(), true
		}
	}
	if !found {
		return "", "", refuse(ReasonMismatch, "no live secret matches "+name)
	}
	return secret, credential, nil
}

// credentialName returns the name of the credential to which the secret belongs.
func (s *Secret) credentialName() string { return cmp.Or(s.Credential, s.Name) }

// maxSecrets returns how many secrets of a source are tried.
func (p *Provider) maxSecrets() int {
	if p.IsOperation() {
		return MaxCredentialSecrets
	}
	return MaxSecrets
}
