package providers

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

func (d *specReader) handshake(where string, h *HandshakeSpec, s *Spec) {
	if h.Name == "" {
		d.at(where+".name", "is required")
	}
	d.choice(where+".method", h.Method, []string{"GET", "POST", "HEAD", "OPTIONS"}, nil)
	d.choice(where+".verify", h.Verify, []string{"signature", "query-signature", "token", "none", "open", "bootstrap", "bootstrap-signed"}, nil)
	if h.Verify == "query-signature" && !s.Verify.signs() {
		d.at(where+".verify", "query-signature needs a family that signs")
	}
	if len(h.Match) == 0 && h.Method != http.MethodHead && h.Method != http.MethodGet {
		d.at(where+".match", "is required")
	}
	for i := range h.Match {
		m := &h.Match[i]
		at := fmt.Sprintf("%s.match[%d]", where, i)
		d.field(at, &Field{Header: m.Header, JSON: m.JSON, Query: m.Query, Form: m.Form}, s, false)
		if m.JSON != "" && h.Verify == "none" {
			d.at(at+".json", "a body is parsed only when verified, or with verify: open or bootstrap, up to 4 KiB")
		}
		if m.Absent && m.Equals != "" {
			d.at(at+".absent", "does not go with equals")
		}
	}
	brings := h.Verify == "bootstrap" || h.Verify == "bootstrap-signed"
	if h.Verify == "token" || brings {
		d.field(where+".token", &h.Token, s, false)
		if h.Token.JSON != "" && !brings {
			d.at(where+".token", "a body is parsed only when verified, or with verify: bootstrap, up to 4 KiB")
		}
	}
	if (h.SecretName != "" || h.Setting != "") && h.Verify != "token" {
		d.at(where, "secret_name and setting go only with verify: token")
	}
	if h.Setting != "" && !slices.ContainsFunc(s.Settings, func(t SettingSpec) bool { return t.Name == h.Setting }) {
		d.at(where+".setting", "is not among the settings")
	}
	if h.Refuse.Status != 0 {
		d.answer(where+".refuse", &h.Refuse, h.Refuse.Status >= 400 && h.Refuse.Status < 500, "is not 4xx")
	}
	if h.Respond.signs() {
		d.signedAnswer(where+".respond", h, s)
	}
	d.template(where+".respond.body", h.Respond.Body)
	for name, value := range h.Respond.Headers {
		d.template(where+".respond.headers."+name, value)
	}
	d.answer(where+".respond", &h.Respond, h.Respond.Status >= 200 && h.Respond.Status < 300, "is not a success")
}

// signedAnswer refuses a handshake whose answer could be used as the signature of a delivery. The
// text that a handshake signs never contains { or [, and a delivery of such a provider is always a
// JSON object or array (see isDocument), so no signed text can be both. That is only true if the
// signature covers the unchanged body and genuine bodies are JSON.
func (d *specReader) signedAnswer(where string, h *HandshakeSpec, s *Spec) {
	if h.Verify != "signature" && h.Verify != "query-signature" {
		d.at(where, "an answer is signed only for a request that is (verify: signature or query-signature): whoever got it could send it as a delivery's signature")
	}
	verifies := []*VerifySpec{&s.Verify}
	for i := range s.Modes {
		verifies = append(verifies, &s.Modes[i].Verify)
	}
	for _, v := range verifies {
		if v.Family != familyHMAC || !slices.ContainsFunc(v.Signed, func(p Part) bool { return p.Word == "body" }) {
			d.at(where, "an answer is signed only beside deliveries of family hmac with the body among their signed parts: it could be the proof of another kind of delivery")
			break
		}
	}
	if s.Body.Format != "json" || s.Body.Form || s.Body.Multipart {
		d.at(where, "an answer is signed only beside deliveries in JSON, which differ from every challenge (body: { format: json, form: false, form_json: \"\", multipart: false })")
	}
}

// signs reports whether the answer contains something signed with a secret.
func (a *AnswerSpec) signs() bool {
	signed := func(text string) bool { return strings.Contains(text, "hmac_") }
	return signed(a.Body) || slices.ContainsFunc(slices.Collect(maps.Values(a.Headers)), signed)
}

func (d *specReader) template(where, text string) {
	if _, err := template(text, jsonspan.NewPathSet()); err != nil {
		d.at(where, "%s", err)
	}
}

func (d *specReader) answer(where string, a *AnswerSpec, ok bool, text string) {
	if !ok {
		d.at(where+".status", "%s", text)
	}
	if a.Empty && a.Body != "" {
		d.at(where+".body", "goes not with empty: true")
	}
	for name, value := range a.Headers {
		d.headerName(where+".headers", name)
		if strings.ContainsAny(value, "\r\n\x00") {
			d.at(where+".headers."+name, "has a line break")
		}
	}
}
