package providers_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const acme = `extends: base
verify:
  signature: { headers: [X-Acme] }
  timestamp: { past: 60s }
type: [{ json: kind }]
`

const base = `extends: slack
title: Base
verify: { signature: { prefix: "v1=" } }
windows: { retry: { for: 2d, note: measured } }
`

// TestOriginOfEachPart checks that Origin names the document of each part, over several extensions.
func TestOriginOfEachPart(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	for _, one := range []struct{ name, text string }{{"base", base}, {"acme", acme}} {
		var err error
		if all[one.name], err = providers.ParseOver(one.name, []byte(one.text), all); err != nil {
			t.Fatal(err)
		}
	}
	p := all["acme"]
	if title := p.Spec().Title; title != "acme" {
		t.Errorf("title %q is inherited", title)
	}
	text, parts, err := p.Resolved()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, part := range parts {
		got[part.Path] = part.Origin
	}
	for path, want := range map[string]string{
		"verify.signature.headers": "acme", "verify.signature.prefix": "base", "verify.signature.schemes": "slack",
		"verify.timestamp.past": "acme", "verify.timestamp.future": "slack", "type": "acme", "windows.retry.for": "base",
		"ack.empty": "slack", "identity.candidates": "slack", "request.methods": "default", "title": "default",
	} {
		if got[path] != want {
			t.Errorf("%s is of %q, want %q", path, got[path], want)
		}
	}
	if !strings.Contains(text, `    prefix: "v1=" # from base`) {
		t.Errorf("the comment is missing in\n%s", text)
	}
	var inherited []string
	for _, part := range p.Inherited() {
		inherited = append(inherited, part.Path+" of "+part.From)
	}
	want := []string{"ack.status of slack", "ack.empty of slack", "verify.timestamp.future of slack", "windows.retry.for of base", "windows.age of slack", "windows.ack_within of slack"}
	for _, part := range inherited {
		if !slices.Contains(want, part) {
			t.Errorf("inherited %s", part)
		}
	}
	if !slices.Contains(inherited, "windows.retry.for of base") || !slices.Contains(inherited, "ack.empty of slack") {
		t.Errorf("inherited %q", inherited)
	}
}

// TestResolvedIsReadAgain checks that the output of Resolved can be parsed and means the same.
func TestResolvedIsReadAgain(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, _, err := all[name].Resolved()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := providers.Parse(name, []byte(text))
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		spec := *all[name].Spec()
		spec.Extends = ""
		if !reflect.DeepEqual(again.Spec().Tree(), spec.Tree()) {
			t.Errorf("%s: what is written means something else:\n%s", name, text)
		}
	}
}

// TestAnIDReplacesAHash checks that a rule for the event id replaces the base's rule completely.
func TestAnIDReplacesAHash(t *testing.T) {
	t.Parallel()
	hashed, err := providers.Parse("hashed", []byte(`
verify: { family: hmac, signature: { headers: [X-A], schemes: [{ algorithm: hmac-sha256, encoding: hex }] }, signed: [body] }
identity: { mode: hash, hash: [{ json: a }, { json: b }], unique_source: "https://example.com/unique", level_when: [{ json: c }], with: [{ header: X-Topic }] }
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := providers.ParseOver("x", []byte("extends: hashed\nidentity: { candidates: [{ json: id }] }\n"), map[string]*providers.Provider{"hashed": hashed})
	if err != nil {
		t.Fatal(err)
	}
	want := providers.IdentitySpec{Mode: "id", Candidates: []providers.Field{{JSON: "id"}}}
	if got := p.Spec().Identity; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
