package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// routeDescription describes one version of a route, for people and for plans. It contains no
// secret: an address is stored up to its host, with a hash of the whole address. Stored: names are
// added, never changed.
type routeDescription struct {
	Types         []string          `json:"types,omitempty"`
	Target        string            `json:"target,omitempty"`
	Kind          string            `json:"kind,omitempty"`
	Method        string            `json:"method,omitempty"`
	Address       string            `json:"address,omitempty"`
	AddressSHA256 string            `json:"address_sha256,omitempty"`
	KeyHeader     string            `json:"key_header,omitempty"`
	Idempotent    bool              `json:"idempotent,omitempty"`
	When          string            `json:"when,omitempty"`
	Key           []string          `json:"key,omitempty"`
	Map           any               `json:"map,omitempty"`
	Mail          map[string]string `json:"mail,omitempty"`
	Statement     string            `json:"statement,omitempty"`
	Parameters    map[string]string `json:"parameters,omitempty"`
	Fetch         string            `json:"fetch,omitempty"`
}

func describe(r *config.Route) routeDescription {
	t := r.Target
	d := routeDescription{
		Types: r.Types, Target: t.Name, Kind: storedKind(t.Kind), KeyHeader: t.KeyHeader, Idempotent: t.Idempotent, Statement: t.Statement,
	}
	switch t.Kind {
	case config.KindForward, config.KindDev:
		d.Method = t.Method
		if d.Method == "" {
			d.Method = "POST"
		}
		d.Address, d.AddressSHA256 = addressOf(t.URL)
		if literals, _, err := forward.SplitAddress(t.URL); err == nil { // an address with expressions may not be valid
			d.Address, _ = addressOf(strings.Join(literals, "x"))
		}
	case config.KindPublish:
		p := t.PublishConfig(nil)
		d.Address, d.AddressSHA256 = addressOf(p.Broker.Address.String() + " " + p.Place)
	case config.KindMail:
		d.Address, d.AddressSHA256 = addressOf(t.SMTP)
	case config.KindSQL:
		d.Address = t.Call
	case config.KindSuppress:
		d.Parameters = map[string]string{"address": t.Suppress.Address.String(), "reason": string(t.Suppress.Reason)}
		if t.Suppress.ReasonOf != nil {
			d.Parameters["reason"] = t.Suppress.ReasonOf.String()
		}
	case config.KindNoop, config.KindHandler:
	}
	if r.When != nil {
		d.When = r.When.String()
	}
	if r.Key != nil && r.Key.Recipe != nil {
		d.Key = append(d.Key, r.Key.Recipe.Texts()...)
	}
	if r.Map != nil {
		d.Map = r.Map.Source()
	}
	if r.Fetch != nil {
		d.Fetch = r.Fetch.ShownURL()
	}
	if r.Mail != nil {
		d.Mail = map[string]string{
			"from": t.From, "to": r.Mail.To.String(), "subject": r.Mail.Subject, "text": r.Mail.Text, "html": r.Mail.HTML,
		}
	}
	for name, p := range t.Parameters {
		if d.Parameters == nil {
			d.Parameters = map[string]string{}
		}
		d.Parameters[name] = p.String()
	}
	return d
}

func (d routeDescription) document() ([]byte, error) {
	document, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("describing a route to %s: %w", d.Target, err)
	}
	return document, nil
}

// renders reports whether the request is made from the event. Such a request is stored before it is
// sent.
func (d routeDescription) renders() bool { return d.Map != nil || d.Mail != nil }

// elsewhere reports whether two descriptions lead to different places.
func (d routeDescription) elsewhere(from routeDescription) bool {
	return d.Target != from.Target || d.Kind != from.Kind || d.Method != from.Method || d.Address != from.Address || d.AddressSHA256 != from.AddressSHA256
}

// sameStatement reports whether both run the same statement in the database.
func (d routeDescription) sameStatement(as routeDescription) bool {
	if d.Statement != as.Statement || len(d.Parameters) != len(as.Parameters) {
		return false
	}
	for name, text := range d.Parameters {
		if as.Parameters[name] != text {
			return false
		}
	}
	return true
}

// known reports whether the version was described.
func (d routeDescription) known() bool { return d.Kind != "" }

// addressOf returns the part of an address that cannot be a credential. Paths and queries of
// webhooks often are credentials.
func addressOf(s string) (shown, hash string) {
	if s == "" {
		return "", ""
	}
	sum := sha256.Sum256([]byte(s))
	hash = hex.EncodeToString(sum[:8])
	if server, _, found := strings.Cut(s, " "); found { // a broker and a place on it
		return server + " ...", hash
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "", hash
	}
	shown = u.Scheme + "://" + u.Host
	if !slices.Contains([]string{"", "/"}, u.EscapedPath()) || u.RawQuery != "" {
		shown += "/..."
	}
	return shown, hash
}
