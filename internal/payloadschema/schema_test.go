package payloadschema_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/payloadschema"
)

const charge = `{
	"type": "object", "required": ["amount", "to"], "additionalProperties": false,
	"properties": {
		"amount": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01}, "to": {"$ref": "parts/party.json"}, "currency": {"enum": ["EUR", "USD"]},
		"mail": {"type": "string", "format": "email"}, "lines": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
	}
}`

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	directory := t.TempDir()
	for name, content := range files {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func TestCheck(t *testing.T) {
	t.Parallel()
	directory := write(t, map[string]string{"charge.json": charge, "parts/party.json": `{"type": "object", "properties": {"iban": {"type": "string", "pattern": "^[A-Z]{2}"}}}`})
	s, err := payloadschema.Load(filepath.Join(directory, "charge.json"))
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]string{
		`{"amount":100.00,"to":{}}`: "", `{"amount":1e2,"to":{"iban":"DE1"},"lines":[{"n":1.0}]}`: "",
		`{"amount":"ninety","to":{}}`:                                   "amount: want number",
		`{"to":7}`:                                                      "$: lacks amount; to: want object",
		`{"amount":1,"to":{},"secret":1}`:                               "$: has members that the schema does not know: secret",
		`{"amount":0.001,"to":{"iban":"hidden"}}`:                       "amount: want a multiple of 1/100; to.iban: want the pattern ^[A-Z]{2}",
		`{"amount":-5,"to":{},"currency":"hidden"}`:                     "amount: want more than 0; currency: want one of [EUR USD]",
		`{"amount":1,"to":{},"mail":"hidden"}`:                          "mail: want the format email",
		`{"amount":1,"to":{},"lines":[{"n":1},{"n":"hidden"},{"n":2}]}`: "lines: want at most 2 elements; lines.1.n: want integer",
		`{"amount":1,"amount":2,"to":{}}`:                               "$: not one JSON document without repeated members",
		`{"amount":1,"to":{}}x`:                                         "$: not one JSON document without repeated members",
		``:                                                              "$: not one JSON document without repeated members",
		`amount=1`:                                                      "$: not one JSON document without repeated members",
		`{"amount":1e99999999,"to":{}}`:                                 "amount: a number of more than 1,000 digits, or with an exponent beyond 1,000",
		`{"amount":1e-1001,"to":{}}`:                                    "amount: a number of more than 1,000 digits, or with an exponent beyond 1,000",
		`{"amount":` + strings.Repeat("9", 1001) + `,"to":{}}`:          "amount: a number of more than 1,000 digits, or with an exponent beyond 1,000",
	} {
		paths, detail := s.Check([]byte(payload))
		if detail != want {
			t.Errorf("%.60s: %q, want %q", payload, detail, want)
		}
		if (len(paths) == 0) != (want == "") || strings.Contains(detail, "hidden") {
			t.Errorf("%.60s: %q, %q", payload, paths, detail)
		}
	}
	// The message is limited for every payload.
	many := `{"amount":1,"to":{},"lines":[` + strings.Repeat(`{"n":"x"},`, 200) + `{}],"` + strings.Repeat("long", 10_000) + `":1}`
	if paths, detail := s.Check([]byte(many)); len(detail) > 1000 || len(paths) != 5 || !strings.HasSuffix(detail, "more") {
		t.Errorf("%d bytes, %d paths: %s", len(detail), len(paths), detail)
	}
}

func TestLoadReadsFilesAlone(t *testing.T) {
	t.Parallel()
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		_, _ = w.Write([]byte(`{}`))
	}))
	defer server.Close()
	directory := write(t, map[string]string{
		"remote.json": `{"$ref": "` + server.URL + `/x.json"}`, "broken.json": `{"type": `, "wrong.json": `{"type": "text"}`, "lost.json": `{"$ref": "nowhere.json"}`,
		"old.json": `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}`,
	})
	for name, want := range map[string]string{
		"remote.json": "only files are read", "broken.json": "it is not JSON", "wrong.json": "no JSON Schema: type", "lost.json": "no such file", "absent.json": "no such file",
	} {
		_, err := payloadschema.Load(filepath.Join(directory, name))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if asked {
		t.Error("a remote reference was fetched")
	}
	if _, err := payloadschema.Load(filepath.Join(directory, "old.json")); err != nil {
		t.Errorf("a schema of draft 7, whose metaschema is built in: %v", err)
	}
}

func TestDigestFollowsTheContent(t *testing.T) {
	t.Parallel()
	digest := func(part string) string {
		s, err := payloadschema.Load(filepath.Join(write(t, map[string]string{"s.json": `{"$ref": "part.json"}`, "part.json": part}), "s.json"))
		if err != nil {
			t.Fatal(err)
		}
		return s.Digest()
	}
	object, again, array := digest(`{"type": "object"}`), digest(`{"type": "object"}`), digest(`{"type": "array"}`)
	if object == array || object != again {
		t.Error("the digest does not follow the content")
	}
}
