package visible_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/oncegate/oncegate/internal/visible"
)

// hostile contains every character that a terminal executes or hides.
func hostile() string {
	var b strings.Builder
	for c := rune(0); c <= unicode.MaxRune; c++ {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029' {
			b.WriteRune(c)
		}
	}
	return "a" + b.String() + "z"
}

// seen are the hidden characters of a text, but for the line breaks between values.
func seen(text string) (out []rune) {
	for _, c := range strings.TrimSpace(text) {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029' {
			out = append(out, c)
		}
	}
	return out
}

func TestJSONHoldsNoCharacterThatATerminalObeys(t *testing.T) {
	t.Parallel()
	in := map[string]any{hostile(): []any{hostile(), "ordinary ünïcode 漢字 \U0001f600", 1.5}, "raw": json.RawMessage(`"` + "\u202e\u2066\u200f\u061c\u0085\u007f\U000e0001" + `"`)}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(visible.NewWriter(&buffer))
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(in); err != nil {
		t.Fatal(err)
	}
	if left := seen(buffer.String()); len(left) > 0 {
		t.Errorf("these are left: %U", left)
	}
	for _, want := range []string{`\u202e`, `\u2066`, `\u200f`, `\u061c`, `\u0085`, `\u007f`, `\udb40\udc01`, "ordinary ünïcode 漢字 \U0001f600"} {
		if !strings.Contains(buffer.String(), want) {
			t.Errorf("%s is not there", want)
		}
	}
	var out map[string]any
	if err := json.Unmarshal(buffer.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	if list, _ := out[hostile()].([]any); len(list) != 3 || list[0] != hostile() {
		t.Error("the value has changed")
	}
}

func TestJSONLogsHoldNoCharacterThatATerminalObeys(t *testing.T) {
	t.Parallel()
	var buffer bytes.Buffer
	slog.New(slog.NewJSONHandler(visible.NewWriter(&buffer), nil)).Warn("hostile", "value", hostile(), hostile(), 1)
	if left := seen(buffer.String()); len(left) > 0 {
		t.Errorf("these are left: %U", left)
	}
	if !json.Valid(buffer.Bytes()) {
		t.Errorf("no JSON: %s", buffer.Bytes())
	}
}

func TestTextHoldsNoCharacterThatATerminalObeys(t *testing.T) {
	t.Parallel()
	if left := seen(visible.Text(hostile())); len(left) > 0 {
		t.Errorf("these are left: %U", left)
	}
	for text, want := range map[string]string{
		"plain ünïcode 漢字":     "plain ünïcode 漢字",
		"\x1b[31mred\x1b[0m":   `\x1b[31mred\x1b[0m`,
		"a\nb\tc\rd":           `a\nb\tc\rd`,
		"\u202eright to left":  `\u202eright to left`,
		"zero\u200bwidth":      `zero\u200bwidth`,
		"next\u0085line":       `next\x85line`,
		"bell\x07nul\x00":      `bell\x07nul\x00`,
		"\xff\xfe":             `\xff\xfe`,
		"line\u2028separator":  `line\u2028separator`,
		"tag\U000e0041letters": `tag\U000e0041letters`,
	} {
		if got := visible.Text(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":"` + "\u202e\u0085" + `"}`))
	f.Add([]byte("\"\\\u2028\""))
	f.Fuzz(func(t *testing.T, text []byte) {
		out := visible.JSON(text)
		var before, after any
		if json.Unmarshal(text, &before) != nil {
			return
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		a, _ := json.Marshal(before)
		b, _ := json.Marshal(after)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q became %q", text, out)
		}
	})
}
