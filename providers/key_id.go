package providers

import (
	"errors"
	"strings"
)

// keyID reads which key the request says it was signed with; empty if the
// provider does not say.
func (p *Provider) keyID(req *Request) (string, *Refusal) {
	if p.spec.Verify.Key.Select != "header" {
		return "", nil
	}
	name := p.spec.Verify.Key.Name
	id, present, err := header(req, []string{name})
	if err != nil {
		return "", err
	}
	if present == "" {
		return "", refuse(ReasonMalformed, "header "+name+" is missing")
	}
	return id, nil
}

// keyed takes the key's id off a secret; mine is false if it is another's.
func (p *Provider) keyForID(secret []byte, id string) (key []byte, mine bool) {
	if p.spec.Verify.Key.Select != "header" {
		return secret, true
	}
	of, rest, ok := strings.Cut(string(secret), "=")
	return []byte(rest), ok && rest != "" && of == id //secretcompare:ok a key's id is no secret: requests name it
}

// unkeyed takes the key's id off a secret, whoever's it is.
func (p *Provider) splitKeyID(secret []byte) (id string, key []byte, err error) {
	if p.spec.Verify.Key.Select != "header" {
		return "", secret, nil
	}
	of, rest, ok := strings.Cut(string(secret), "=")
	if !ok || of == "" || rest == "" {
		return "", nil, errors.New("is not written id=key, the id being what header " + p.spec.Verify.Key.Name + " says")
	}
	return of, []byte(rest), nil
}
