package docs

import (
	"cmp"

	"github.com/oncegate/oncegate/internal/control"
)

// metadata documents who sees which metadata, and who searches by it.
func metadata() string {
	var rows [][]string
	for _, m := range control.Metadata() {
		search := "no search"
		if m.Search != "" {
			search = code(string(m.Search)) + ": " + m.Searches
		}
		rows = append(rows, []string{m.What, code(string(m.See)), cmp.Or(m.Without, "the same"), search})
	}
	return table([]string{"metadata", "shown with", "others see", "searched with"}, rows)
}
