// Package man writes the manual pages of the command line for distribution packages.
package man

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc" // reads the same tree of commands as --help

	"github.com/oncegate/oncegate/cmd/internal/cli"
)

// Write writes a manual page for each command into a directory, which it creates if necessary. The
// pages contain the date, so the same date produces the same pages.
func Write(dir string, date time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // everybody may read the pages
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

// plain removes the line that says when the page was generated.
func plain(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	for _, sub := range cmd.Commands() {
		plain(sub)
	}
}
