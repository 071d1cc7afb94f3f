package docs

import (
	"maps"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/drill/invariant"
)

// Tables returns every generated table, by the name of its region.
func Tables(root *cobra.Command) (map[string]string, error) {
	all, err := sources()
	if err != nil {
		return nil, err
	}
	out := map[string]string{"configuration": configuration(), "variables": variables(), "codes": codes(), "next": nextMeanings(), "api-codes": apiCodes(), "command-line-codes": commandLineCodes(), "places": places(), "metadata": metadata(), "invariants": invariants()}
	if out["metrics"], err = metrics(); err != nil {
		return nil, err
	}
	ofCommands, err := commandTables(root)
	if err != nil {
		return nil, err
	}
	maps.Copy(out, ofCommands)
	words, err := wordTables(all)
	if err != nil {
		return nil, err
	}
	maps.Copy(out, words)
	return out, nil
}

// invariants returns what a drill checks.
func invariants() string {
	var rows [][]string
	for _, v := range invariant.All() {
		rows = append(rows, []string{code(string(v.Name)), v.Says})
	}
	return table([]string{"invariant", "it says"}, rows)
}

// anchor returns the anchor by which a Markdown heading is linked.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}
