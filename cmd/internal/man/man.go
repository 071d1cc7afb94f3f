// Package man writes the manual pages of the command line, as a package of a distribution ships them.
package man

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc" // reads the same tree of commands as --help

	"github.com/oncegate/oncegate/cmd/internal/cli"
)

// Write writes a page for each command into a directory, which it makes. The date stands in the pages: the same one makes
// the same pages.
func Write(dir string, date time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // pages are for everybody
		return fmt.Errorf("making the directory of the pages: %w", err)
	}
	root := cli.Command()
	root.InitDefaultCompletionCmd()
	plain(root)
	header := &doc.GenManHeader{Title: "ONCEGATE", Section: "1", Source: "Oncegate", Manual: "Oncegate", Date: &date}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("writing the pages: %w", err)
	}
	return nil
}

// plain leaves out the line that says that the page was generated, with the day of today.
func plain(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	for _, sub := range cmd.Commands() {
		plain(sub)
	}
}
