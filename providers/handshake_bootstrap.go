package providers

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// maxOpen is the longest body of an unauthenticated handshake.
const maxOpen = 4 << 10

// admit authenticates a handshake as its rule requires, before anything parses the body.
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

// tokens returns the values that the token of a handshake may equal.
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

// bootstrap reads the secret that a handshake delivers. Anyone can send such a request, so the
// secret is only shown to the operator and never trusted. It returns nil if a live secret is equal.
// A signed request of this kind is signed with the delivered secret itself, which proves the
// integrity of the request and not its sender.
func (p *Provider) bootstrap(h *handshake, s *source, secrets []Secret) (*Secret, error) {
	if h.Verify != "bootstrap" && h.Verify != "bootstrap-signed" {
		return nil, nil //nolint:nilnil // most handshakes deliver no secret
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
			return nil, nil //nolint:nilnil // the secret is already known
		}
	}
	return &arrived, nil
}

// refusal adds the answer that the handshake defines to a refusal.
func (h *handshake) refusal(err error) error {
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || h.Refuse.Status == 0 {
		return err
	}
	reply := Reply{Status: h.Refuse.Status, Header: http.Header{"X-Content-Type-Options": {"nosniff"}}}
	return &Refusal{Reason: refusal.Reason, Detail: refusal.Detail, Reply: &reply}
}
