package providers

import (
	"errors"
	"strings"
)

// keyID returns the id of the key that the request names. It is empty if the provider's requests
// name none.
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

// keyForID removes the key's id from a secret. mine is false if the secret has another id.
func (p *Provider) keyForID(secret []byte, id string) (key []byte, mine bool) {
	if p.spec.Verify.Key.Select != "header" {
		return secret, true
	}
	of, rest, ok := strings.Cut(string(secret), "=")
	return []byte(rest), ok && rest != "" && of == id //secretcompare:ok a key's id is no secret: requests name it
}

// splitKeyID separates a secret into the key's id and the key, for any id.
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
