package cli_test

import (
	"strconv"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/cli"
)

// A list ends when its server pages for ever: with a cursor that was there before, without one, or with empty pages.
func TestAListThatNeverEndsIsLeft(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(n int) (string, int){
		"one cursor":  func(int) (string, int) { return "a", 1 },
		"two cursors": func(n int) (string, int) { return strconv.Itoa(n % 2), 1 },
		"no cursor":   func(int) (string, int) { return "", 1 },
		"empty pages": func(n int) (string, int) { return strconv.Itoa(n), 0 },
	} {
		var guard cli.Endless
		var err error
		for n := 0; n < 5000 && err == nil; n++ {
			err = guard.Check(next(n))
		}
		if err == nil {
			t.Errorf("%s: 5000 pages were read", name)
		}
	}
	var guard cli.Endless
	for n := range 5000 {
		if err := guard.Check(strconv.Itoa(n), n%900/899); err != nil {
			t.Fatalf("a long list: %v", err)
		}
	}
}
