package providers_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

const good = `
docs: https://example.com/docs
verify:
  family: hmac
  signature:
    headers: [X-Signature]
    schemes: [{ algorithm: hmac-sha256, encoding: hex }]
  signed: [body]
identity:
  candidates: [{ json: id }]
`

// A list of event types is complete and has a source, or it is not believed.
func TestTypesAreChecked(t *testing.T) {
	t.Parallel()
	for types, want := range map[string]string{
		"types: { source: https://example.com/types, known: [a.b, c] }":         "",
		"types: { known: [a.b, c] }":                                            "types: needs both source and known",
		"types: { source: https://example.com/types }":                          "types: needs both source and known",
		"types: { source: ftp://example.com, known: [a.b] }":                    "types.source: is not an https address",
		"types: { source: https://example.com/types, known: [a.b, c, a.b] }":    `types.known[2]: "a.b" is in the list twice`,
		"types: { source: https://example.com/types, known: [a.b, ''] }":        "types.known[1]: is not the name of an event type",
		"types: { source: https://example.com/types, known: [a.b], all: true }": `types: unknown key "all"`,
	} {
		_, err := providers.Parse("listed", []byte(good+types))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", types, err, want)
		}
	}
}

// A provider has the types of the one that it extends, unless it reads the type in another way.
func TestTypesAreInherited(t *testing.T) {
	t.Parallel()
	base, err := providers.Parse("listed", []byte(good+"type: [{ json: type }]\ntypes: { source: https://example.com/types, known: [a.b, c] }"))
	if err != nil {
		t.Fatal(err)
	}
	for own, want := range map[string]struct {
		types  int
		origin string
	}{
		"":                             {2, "listed"},
		"\ntype: [{ header: X-Type }]": {0, providers.OriginDefault},
		"\ntypes: { source: https://example.com/others, known: [d] }":                               {1, "own"},
		"\ntype: [{ json: kind }]\ntypes: { source: https://example.com/others, known: [d, e, f] }": {3, "own"},
	} {
		p, err := providers.ParseOver("own", []byte("extends: listed"+own), providers.Map{"listed": base})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(p.Spec().Types.Known); got != want.types || p.Origin("types.known") != want.origin {
			t.Errorf("%q: %d types of %s, want %d of %s", own, got, p.Origin("types.known"), want.types, want.origin)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	p, err := providers.Parse("good", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if p.IDUnsigned() || p.Limits().MaxBody != 1<<20 || p.Limits().Methods[0] != "POST" {
		t.Errorf("%+v %+v", p.Limits(), p.Spec())
	}
}

// Everything that is wrong is named at once, with its line.
func TestParseReportsAll(t *testing.T) {
	t.Parallel()
	_, err := providers.Parse("bad", []byte(`docs: http://example.com
colour: red
request: { max_body: lots }
verify:
  family: hmac
  signature:
    headers: [X-Signature]
    schemes:
      - { algorithm: hmac-sha257, encoding: hexx, label: 7 }
  signed: [body, nonsense]
  timestamp: { form: header }
identity:
  candidates: [{ json: id, header: X-Id }]
windows:
  retry: { for: 3d }
`))
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{
		"bad:1:1: docs: is not an https address",
		"bad:2:1: unknown key \"colour\"; known are ack, body",
		"bad:3:22: request.max_body: \"lots\": not a size such as",
		"bad:9:11: verify.signature.schemes[0].algorithm: \"hmac-sha257\": unknown; did you mean hmac-sha256?",
		"bad:9:35: verify.signature.schemes[0].encoding: \"hexx\": unknown; did you mean hex?",
		"bad:8:5: verify.signature.schemes: format value takes schemes without labels",
		"bad:10:18: verify.signed[1]: \"nonsense\": unknown",
		"bad:11:16: verify.timestamp: unknown key \"form\"; did you mean from?",
		"bad:13:16: identity.candidates[0]: is one of",
		"bad:15:3: windows.retry: needs the source",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing says %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

// What the shape has and Go does not do yet is refused precisely, never ignored.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for overlay, want := range map[string]string{
		"verify: { family: rsa }":                                                                                                                 `"rsa": unknown; known are hmac`,
		"verify: { family: magic }":                                                                                                               `"magic": unknown; known are hmac`,
		"verify: { signature: { from: json, path: sig } }":                                                                                        "does not go with from: json",
		"verify: { signature: { format: groups } }":                                                                                               "required by format groups",
		"verify: { signature: { schemes: [{ algorithm: hmac-md5, encoding: hex }] } }":                                                            "not implemented",
		"verify: { signature: { schemes: [{ algorithm: hmac-sha256, encoding: hex, key: spki }] } }":                                              "is valid only with public keys",
		"verify: { signature: { schemes: [{ algorithm: none, encoding: hex }] } }":                                                                "unknown; known are",
		"verify: { signature: { headers: [] } }":                                                                                                  "required",
		"verify: { signature: { headers: ['X Y'] } }":                                                                                             "not the name of a header",
		"verify: { signed: [{ form: payload }] }":                                                                                                 "needs the body",
		"verify: { signed: [{ literal: x }] }":                                                                                                    "needs the body",
		"verify: { signed: [timestamp, body] }":                                                                                                   "is required",
		"verify: { timestamp: { from: header, header: X-Time } }":                                                                                 "does not cover",
		"verify: { timestamp: { from: json } }":                                                                                                   "is required",
		"verify: { timestamp: { past: 48h } }":                                                                                                    "longer than a day",
		"verify: { key: { select: claim, name: X-Key } }":                                                                                         "not implemented",
		"verify: { credential: [{ scheme: bearer }] }":                                                                                            "does not go",
		"identity: { mode: level, candidates: [{ json: id }] }":                                                                                   "is valid only with mode: id",
		"identity: { mode: level, with: [{ header: X-Topic }] }":                                                                                  "reads no id",
		"identity: { mode: digest, with: [{ json: a }] }":                                                                                         "the payload is in the digest already",
		"identity: { mode: digest, level_when: [{ json: a, absent: true, equals: b }] }":                                                          "does not go with absent",
		"identity: { mode: hash, hash: [{ json: $ }], unique_source: https://example.com }":                                                       "say mode: digest",
		"identity: { mode: hash, hash: [{ json: a }, { json: b }] }":                                                                              "identity.unique_source",
		"identity: { mode: hash, unique_source: https://example.com, hash: [{ json: a }, { json: b, optional: true }] }":                          "every part of an id is required",
		"identity: { mode: hash, unique_source: https://example.com, hash: [{ json: a, optional: true }] }":                                       "every part of an id is required",
		"identity: { unique_source: https://example.com, candidates: [{ join: [{ json: a }, { json: b, optional: true }] }] }":                    "every part of an id is required",
		"identity: { unique_source: https://example.com, candidates: [{ join: [{ json: a }, { literal: b, if: c }] }] }":                          "every part of an id is required",
		"identity: { candidates: [{ join: [{ json: a }, { json: b }] }] }":                                                                        "identity.unique_source",
		"identity: { unique_source: the documentation, candidates: [{ join: [{ json: a }, { json: b }] }] }":                                      "not an https address",
		"identity: { candidates: [{ literal: event }] }":                                                                                          "is the id of every event",
		"identity: { candidates: [{ json: id }], hash: [{ json: a }] }":                                                                           "is valid only with mode: hash",
		"identity: { mode: hash, hash: [{ json: a }, { body: sha256 }] }":                                                                         "unknown key",
		"identity: { candidates: [{ json: id }], transmission: [{ header: X-Transmission }] }":                                                    "a header or a query parameter that the signature covers",
		"identity: { candidates: [{ json: id }], transmission: [{ json: id }] }":                                                                  "a header or a query parameter that the signature covers",
		"identity: { mode: level, transmission: [{ header: X-Transmission }] }":                                                                   "goes only with mode: id",
		"identity: { candidates: [] }":                                                                                                            "required",
		"identity: { candidates: [{ json: 'a..b' }] }":                                                                                            "not a JSON path",
		"identity: { candidates: [{ json: 'a[*].b' }] }":                                                                                          "not a JSON path",
		"identity: { candidates: [{ form: id }] }":                                                                                                "needs body.form",
		"identity: { candidates: [{ envelope: id }] }":                                                                                            "is valid only with split",
		"occurred_at: [{ json: created }]":                                                                                                        "unit: is required",
		"sequence: { kind: version }":                                                                                                             "go together",
		"sequence: { kind: time, candidates: [{ key: { json: id }, number: { header: X-Time, unit: s } }] }":                                      "number: reads header X-Time, which the signature does not cover",
		"sequence: { kind: version, candidates: [{ key: { join: [{ header: X-Shop }, { json: id }] }, number: { json: n } }] }":                   "key: reads header X-Shop, which the signature does not cover",
		"sequence: { kind: version, candidates: [{ key: { json: id }, number: { query: n } }] }":                                                  "number: reads query parameter n, which the signature does not cover",
		"body: { form_json: payload }\nsplit: { form: events }":                                                                                   "another field than",
		"body: { format: xml }":                                                                                                                   "not implemented",
		"request: { methods: [GET] }\nverify: { family: static, credential: [{ scheme: query, name: key }] }":                                     "does not go with a credential in the query",
		"request: { encodings: [gzip] }":                                                                                                          "not implemented",
		"request: { max_body: 1000MiB }":                                                                                                          "at most 64MiB",
		"ack: { status: 500 }":                                                                                                                    "not a success",
		"reject: { status: 500 }":                                                                                                                 "not 4xx",
		"handshakes: [{ name: x, verify: none, match: [{ json: a }] }]":                                                                           "only when verified",
		"handshakes: [{ name: x, verify: signature, match: [{ json: a }], respond: { body: '{{what a}}' } }]":                                     "unknown source",
		"handshakes: [{ name: x, method: GET, verify: none, respond: { body: '{{hmac_hex query a}}' } }]":                                         "an answer is signed only for a request that is",
		"handshakes: [{ name: x, method: GET, verify: token, token: { query: t }, respond: { headers: { X-A: '{{hmac_hex query a}}' } } }]":       "an answer is signed only for a request that is",
		"body: { format: any }\nhandshakes: [{ name: x, verify: signature, match: [{ header: a }], respond: { body: '{{hmac_hex header a}}' } }]": "only beside deliveries in JSON",
		"body: { form: true }\nhandshakes: [{ name: x, verify: signature, match: [{ header: a }], respond: { body: '{{hmac_hex header a}}' } }]":  "only beside deliveries in JSON",
		"modes: [{ name: m, when: [{ header: b }], verify: { family: static, credential: [{ scheme: bearer }] } }]\nhandshakes: [{ name: x, verify: signature, match: [{ header: a }], respond: { body: '{{hmac_hex header a}}' } }]": "only beside deliveries of family hmac",
		"confidence: { docs: sure }": "unknown; known are",
		"checked: 2026-13":           "is not a year and a month",
		"settings: [{ name: a, about: b, required: true, setup: c }]":                       "does not go with required: true",
		"settings: [{ name: a, about: b, setup: c }]":                                       "is required beside setup",
		"handshakes: [{ name: x, verify: none, token: { json: a }, match: [{ json: a }] }]": "only when verified, or with verify: open or bootstrap",
		"docs: [a, b]":     "must be a single value, not a list",
		"verify: hmac":     "must be a mapping (key: value), not a single value",
		"extends: nothing": `unknown provider "nothing"`,
		"verify: { family: hmac, family: static }": `duplicate key "family", first on line 2`,
	} {
		text := overlay
		if !strings.HasPrefix(overlay, "extends") {
			text = "extends: good\n" + overlay
		}
		base, err := providers.Parse("good", []byte(good))
		if err != nil {
			t.Fatal(err)
		}
		_, err = providers.ParseOver("x", []byte(text), map[string]*providers.Provider{"good": base})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", overlay, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "\n\n") {
			t.Errorf("%s: the error has empty lines", overlay)
		}
	}
	for _, text := range []string{"", "---\n---\n", "a: b: c", "- 1", "a: b\n---\nc: d", "&a [*a]", "x: " + strings.Repeat("[", 5000)} {
		if _, err := providers.Parse("x", []byte(text)); err == nil {
			t.Errorf("%.20q is taken", text)
		}
	}
}

// A custom provider changes nothing in the one it extends.
func TestExtend(t *testing.T) {
	t.Parallel()
	p, err := catalog.Parse("acme", []byte(`
extends: hmac
docs: https://acme.example/webhooks
verify:
  signature: { headers: [X-Acme-Signature], prefix: "", schemes: [{ algorithm: hmac-sha512, encoding: base64 }] }
identity: { candidates: [{ header: X-Acme-Event }] }
`))
	if err != nil {
		t.Fatal(err)
	}
	if !p.IDUnsigned() || p.Spec().Verify.Signature.Headers[0] != "X-Acme-Signature" || p.Spec().Type[0].JSON != "type" {
		t.Errorf("%+v", p.Spec())
	}
	if base := load(t, "hmac"); base.IDUnsigned() || base.Spec().Verify.Signature.Headers[0] != "X-Hub-Signature-256" {
		t.Error("the base has changed")
	}
}

// When an entry was read says nothing of what extends it.
func TestCheckedStaysWithTheEntry(t *testing.T) {
	t.Parallel()
	base, err := providers.Parse("base", []byte(good+"checked: 2026-11\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := providers.ParseOver("own", []byte("extends: base\n"), map[string]*providers.Provider{"base": base})
	if err != nil {
		t.Fatal(err)
	}
	if base.Spec().Checked != "2026-11" || p.Spec().Checked != "" {
		t.Errorf("the base says %q, what extends it %q", base.Spec().Checked, p.Spec().Checked)
	}
}
