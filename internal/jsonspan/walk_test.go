package jsonspan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// documents returns JSON documents in every form for which the walk has a fast path, and in forms
// for which it has none.
func documents(tb testing.TB) [][]byte {
	tb.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(twoKilobytes()), "\t", "  "); err != nil {
		tb.Fatal(err)
	}
	escapes := `{"a\u0062c":"\"\\\/\b\f\n\r\t\ud83d\ude00 longer than eight bytes","k" : "v" ,"id":"evt_1"}`
	numbers := `{"id":"evt_1","n":[0,-0,1,10,-1,0.5,-0.5,1.25e10,1E+2,1e-2,123456789,12345678,1234567,0e0]}`
	var nested strings.Builder
	for i := range 60 {
		nested.WriteString([]string{`{"a":`, `[1,[],{},`}[i%2])
	}
	nested.WriteString("true")
	for i := range 60 {
		nested.WriteString([]string{`]`, `}`}[i%2])
	}
	lengths := make([]string, 0, 40)
	for i := range 40 {
		lengths = append(lengths, fmt.Sprintf("%q:%q", strings.Repeat("k", i), strings.Repeat("v", 40-i)))
	}
	return [][]byte{
		[]byte(twoKilobytes()), indented.Bytes(), []byte(escapes), []byte(numbers),
		[]byte(`{"id":"evt_1","deep":` + nested.String() + `}`), []byte("{" + strings.Join(lengths, ",") + `,"t":[true,false,null]}`),
	}
}

// twoKilobytes returns a typical document.
func twoKilobytes() string {
	const line = `{"id":"il_1","amount":4200,"currency":"eur","description":"A line of an invoice","period":{"start":1714000000,"end":1716678400}}`
	return `{"id":"evt_1","object":"event","created":1714000000,"data":{"object":{"id":"in_1","lines":[` +
		strings.TrimSuffix(strings.Repeat(line+",", 14), ",") + `]}},"type":"invoice.paid"}`
}

// For documents damaged in one or two places, the walk and encoding/json agree on whether they are
// JSON.
func TestWalkAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	paths := jsonspan.NewPathSet()
	paths.Add("id")
	paths.Add("data.object.id")
	random := rand.New(rand.NewPCG(1, 2)) // the same damage in every run
	const letters = "\"\\{}[]:,0123456789-+.eEtrufalsn \n\t\r\x00\x1f\x7f\xffx"
	valid := 0
	check := func(body []byte) {
		_, err := paths.Walk(body)
		isJSON := err == nil || errors.Is(err, jsonspan.ErrTwice)
		if errors.Is(err, jsonspan.ErrTwice) && !json.Valid(body) {
			return // the walk stops at the second key
		}
		if isJSON != json.Valid(body) {
			t.Fatalf("%s: the walk says JSON=%v, encoding/json %v", body, isJSON, json.Valid(body))
		}
		if isJSON {
			valid++
		}
	}
	for _, document := range documents(t) {
		check(document)
		for at := range document {
			check(document[:at])
		}
		for range 3000 {
			body := bytes.Clone(document)
			for range 1 + random.IntN(2) {
				at := random.IntN(len(body))
				switch letter := letters[random.IntN(len(letters))]; random.IntN(3) {
				case 0:
					body[at] = letter
				case 1:
					body = append(body[:at], body[at+1:]...)
				default:
					body = append(body[:at], append([]byte{letter}, body[at:]...)...)
				}
			}
			check(body)
		}
	}
	if valid < 1000 {
		t.Errorf("only %d of the damaged documents are JSON still: the damage is no test", valid)
	}
}
