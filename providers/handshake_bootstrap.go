package providers

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// maxOpen is the longest body of a handshake that nothing authenticates.
const maxOpen = 4 << 10

// admit proves a handshake before anything of its body is read, as far as its
// rule asks.
func (p *Provider) admit(h *handshake, req *Request, secrets []Secret) error {
	switch h.Verify {
	case "signature":
		_, err := p.mode(req).authenticate(req, secrets)
		return err
	case "query-signature":
		asked := *req
		asked.Body = nil
		if _, query, found := strings.Cut(req.URL, "?"); found {
			asked.Body = []byte(query)
		}
		_, err := p.mode(&asked).authenticate(&asked, secrets)
		return err
	case "open", "bootstrap", "bootstrap-signed":
		if len(req.Body) > maxOpen {
			return refuse(ReasonMalformed, "handshake "+h.Name+": the body is longer than 4 KiB")
		}
	}
	return nil
}

// tokens are what the token of a handshake may equal.
func (p *Provider) tokens(h *handshake, secrets []Secret) []Secret {
	var out []Secret
	switch {
	case h.Setting != "":
		settings, err := p.ready()
		if err != nil {
			return nil
		}
		for _, value := range settings[h.Setting] {
			out = append(out, Secret{Value: []byte(value)})
		}
	case h.SecretName != "":
		for i := range secrets {
			if secrets[i].Name == h.SecretName {
				out = append(out, secrets[i])
			}
		}
	default:
		return p.keys(secrets)
	}
	return out
}

// bootstrap reads the secret that a handshake brings. Anybody can send one, so
// it is given to the operator and trusted by nothing; one that a live secret
// equals is known already. Where such a request is signed, it is by that very
// secret, which shows that the request is whole, not who sent it.
func (p *Provider) bootstrap(h *handshake, s *source, secrets []Secret) (*Secret, error) {
	if h.Verify != "bootstrap" && h.Verify != "bootstrap-signed" {
		return nil, nil //nolint:nilnil // most handshakes bring nothing
	}
	value, ok, err := h.token.read(s, false)
	if err != nil || !ok || len(value) > maxEcho || !printable(value) {
		return nil, refuse(ReasonMalformed, "handshake "+h.Name+": the secret it brings cannot be read")
	}
	arrived := Secret{Name: "arrived", Value: []byte(value)}
	if h.Verify == "bootstrap-signed" {
		if _, err := p.authenticate(s.req, []Secret{arrived}); err != nil {
			return nil, err
		}
	}
	got := sha256.Sum256(arrived.Value)
	for _, secret := range live(secrets, s.req.ReceivedAt) {
		want := sha256.Sum256(secret.Value)
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			return nil, nil //nolint:nilnil // it is known
		}
	}
	return &arrived, nil
}

// refusal gives a refusal the answer that the handshake asks for.
func (h *handshake) refusal(err error) error {
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || h.Refuse.Status == 0 {
		return err
	}
	reply := Reply{Status: h.Refuse.Status, Header: http.Header{"X-Content-Type-Options": {"nosniff"}}}
	return &Refusal{Reason: refusal.Reason, Detail: refusal.Detail, Reply: &reply}
}
