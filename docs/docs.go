// Package docs embeds the documentation that the binary serves.
package docs

import "embed"

//go:embed *.md guides/*.md guides/alerts.yml guides/grafana.json reference/*.md reference/commands/*.md recipes
var files embed.FS

// Files returns the pages of this directory and the files that they offer. The index is README.md.
func Files() embed.FS { return files }
