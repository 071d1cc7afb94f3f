package cli_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/cli"
)

func TestCleanShowsWhatATerminalWouldObey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain ünïcode 漢字":    "plain ünïcode 漢字",
		"\x1b[31mred\x1b[0m":  `\x1b[31mred\x1b[0m`,
		"a\nb\tc\rd":          `a\nb\tc\rd`,
		"\u202eright to left": `\u202eright to left`,
		"zero\u200bwidth":     `zero\u200bwidth`,
		"next\u0085line":      `next\x85line`,
		"bell\x07nul\x00":     `bell\x07nul\x00`,
		"\xff\xfe":            `\xff\xfe`,
		"line\u2028separator": `line\u2028separator`,
	} {
		if got := cli.Clean(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"short", strings.Repeat("x", 100), "漢字"}, {"a\nb", "y", strings.Repeat("z", 30)}}
	for width, want := range map[int]string{
		40: "A      B                              C\n" +
			"short  xxxxxxxxxxxxxxxxxxxxxxxxxx...  漢字\n",
	} {
		got := cli.Table([]string{"A", "B", "C"}, rows[:1], width)
		if got != want {
			t.Errorf("width %d:\n%q\n%q", width, got, want)
		}
	}
	for line := range strings.SplitSeq(cli.Table([]string{"A", "B", "C"}, rows, 60), "\n") {
		if n := len([]rune(line)); n > 60 {
			t.Errorf("a line of %d characters in a terminal of 60: %s", n, line)
		}
	}
	if got := cli.Table([]string{"A", "B", "C"}, rows, 0); !strings.Contains(got, strings.Repeat("x", 100)) {
		t.Error("a value was cut where there is no terminal")
	}
}
