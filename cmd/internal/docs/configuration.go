package docs

import (
	"strings"

	"github.com/oncegate/oncegate/internal/config"
)

// configuration documents the keys of the configuration file, with one table per section.
func configuration() string {
	var b strings.Builder
	sections := config.Sections()
	for _, section := range sections {
		keys := section.Own(sections)
		b.WriteString("## " + section.Title + "\n\n")
		if section.Text != "" {
			b.WriteString(section.Text + "\n\n")
		}
		var rows [][]string
		header := []string{"key", "default", "meaning"}
		variables := false
		for _, key := range keys {
			variables = variables || len(config.VariablesOf(section.Prefix+key.Name)) > 0
		}
		if variables {
			header = []string{"key", "environment", "default", "meaning"}
		}
		for _, key := range keys {
			row := []string{code(section.Prefix + key.Name)}
			if variables {
				var names []string
				for _, name := range config.VariablesOf(section.Prefix + key.Name) {
					names = append(names, code(name))
				}
				row = append(row, strings.Join(names, ", "))
			}
			rows = append(rows, append(row, key.Default, key.Text))
		}
		b.WriteString(table(header, rows) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// variables documents the environment variables.
func variables() string {
	var rows [][]string
	for _, v := range config.Variables() {
		rows = append(rows, []string{code(v.Name), v.Sets})
	}
	return table([]string{"variable", "what it sets"}, rows)
}
