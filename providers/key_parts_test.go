package providers_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// A caller that makes the key from its parts has the key that a recipe of these parts makes, and
// no other list of parts has it.
func FuzzKeyFrom(f *testing.F) {
	cat := catalogtest.Load(f)
	plain := cat["operation"]
	p, err := plain.WithRecipe([]string{"header.Run-Id", "header.Step"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("42", "3", "4", "23")
	f.Add("a:b", "c", "a", "b:c")
	f.Add("a%3ab", "c", "a:b", "c")
	f.Add("%", "25", "%25", "")
	f.Add("run 42", "a\nb", "run", "42")
	f.Add("ä", "\x00", "\xff", "é")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, two := providers.KeyFrom(a, b), providers.KeyFrom(c, d)
		if same := a == c && b == d; same != (one == two) {
			t.Errorf("the parts %q, %q and %q, %q have the keys %q and %q", a, b, c, d, one, two)
		}
		if strings.Count(one, ":") != 1 || strings.ContainsFunc(one, func(r rune) bool { return r <= 0x20 || r >= 0x7f }) {
			t.Errorf("the key %q is not two parts of visible ASCII", one)
		}
		if strings.HasPrefix(one, "%sha256-") {
			t.Errorf("the key %q looks like a digest", one)
		}
		carried := func(s string) bool { // a header keeps such a text unchanged
			return s != "" && s == strings.TrimSpace(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
		}
		if !carried(a) || !carried(b) || len(one) > 200 {
			return
		}
		request := call("one", "pay", "", "Run-Id", a, "Step", b)
		if got := keyOf(t, p, request); got != "agent:pay:"+one {
			t.Errorf("a recipe makes the key %q, the parts %q", got, one)
		}
		request.Header = http.Header{"Authorization": {"Bearer one"}, "Oncegate-Operation": {"pay"}, "Idempotency-Key": {one}}
		if d, err := plain.Verify(request, slices.Clone(callers)); err != nil || d.Items[0].EventID != "agent:pay:"+one {
			t.Errorf("a source that takes the caller's key refuses %q or changes it: %v", one, err)
		}
	})
}
