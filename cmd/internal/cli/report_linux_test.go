package cli_test

import (
	"io"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/cli"
)

// At a terminal a dim line says what explains the code. It is not dim with NO_COLOR, and it is missing where it would
// disturb: in JSON, and after a mistake for which the error names --help.
func TestHintAtATerminal(t *testing.T) {
	t.Parallel()
	const hint = "`oncegate explain unknown_word` says more"
	for name, c := range map[string]struct {
		args    string
		environ []string
		want    string // after the last error
	}{
		"colours":   {"explain nosuchword", nil, "[unknown_word]\r\n\x1b[2m" + hint + "\x1b[0m\r\n"},
		"no colour": {"explain nosuchword", []string{"NO_COLOR=1"}, "[unknown_word]\r\n" + hint + "\r\n"},
		"the flag":  {"explain nosuchword --no-color", nil, "[unknown_word]\r\n" + hint + "\r\n"},
		"JSON":      {"explain nosuchword -o json", nil, `"code":"unknown_word"}` + "\r\n"},
		"usage":     {"explain", nil, "see `oncegate explain --help` [usage]\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keyboard, terminal := openTerminal(t)
			exit := cli.Main(strings.Fields(c.args), c.environ, strings.NewReader(""), io.Discard, terminal)
			shown := readTerminal(t, keyboard, terminal)
			if exit != 2 || !strings.HasSuffix(shown, c.want) {
				t.Errorf("exit %d: %q, want %q at the end", exit, shown, c.want)
			}
		})
	}
}

// readTerminal returns all that was written to a terminal. One read may return a part of it, so it writes a mark and reads up to that.
func readTerminal(t *testing.T, keyboard io.Reader, terminal io.Writer) string {
	t.Helper()
	const mark = "<end>"
	if _, err := io.WriteString(terminal, mark); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for part := make([]byte, 4096); ; {
		n, err := keyboard.Read(part)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(part[:n])
		if text, ok := strings.CutSuffix(shown.String(), mark); ok {
			return text
		}
	}
}
