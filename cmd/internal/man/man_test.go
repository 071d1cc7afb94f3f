package man_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/cmd/internal/man"
)

// Every command has a page with its examples, and the same date produces the same pages.
func TestEveryCommandHasAPage(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	date := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for _, dir := range []string{first, second} {
		if err := man.Write(dir, date); err != nil {
			t.Fatal(err)
		}
	}
	pages := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub)
			}
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Error(err)
			return
		}
		pages++
		again, err := os.ReadFile(filepath.Join(second, name))
		if err != nil || string(again) != string(page) {
			t.Errorf("%s is another one the second time: %v", name, err)
		}
		if !strings.Contains(string(page), `.TH "ONCEGATE"`) || !strings.Contains(string(page), "Nov 2026") || !cmd.HasSubCommands() && !strings.Contains(string(page), "EXAMPLE") {
			t.Errorf("%s has no head or no example", name)
		}
	}
	walk(cli.Command())
	if pages < 90 {
		t.Errorf("only %d pages were written", pages)
	}
}
