package catalog

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed aliases.txt
var aliases string

// Alias leads from a name that people search for to a provider.
type Alias struct {
	// Name is the name in lower case, without spaces and dots.
	Name string
	// Use is the provider to use.
	Use string
	// Why says what a sender that is not in the catalogue does. It is empty if Use is that sender.
	Why string
}

// Aliases returns the index of names, sorted.
func Aliases() []Alias {
	var out []Alias
	for line := range strings.Lines(aliases) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		use, why, _ := strings.Cut(rest, " ")
		out = append(out, Alias{Name: name, Use: use, Why: strings.TrimSpace(why)})
	}
	slices.SortFunc(out, func(a, b Alias) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// FindAlias returns the alias for a name, however it is written.
func FindAlias(name string) (Alias, bool) {
	plain := plainAlias(name)
	for _, a := range Aliases() {
		if plainAlias(a.Name) == plain {
			return a, true
		}
	}
	return Alias{}, false
}

// AliasesMatching returns the providers to which a name that contains the text leads.
func AliasesMatching(text string) []string {
	var out []string
	plain := plainAlias(text)
	for _, a := range Aliases() {
		if plain != "" && strings.Contains(plainAlias(a.Name), plain) && !slices.Contains(out, a.Use) {
			out = append(out, a.Use)
		}
	}
	return out
}

// plainAlias removes what people write differently: case, spaces, dots, dashes and underscores.
func plainAlias(name string) string {
	return strings.NewReplacer(" ", "", ".", "", "-", "", "_", "").Replace(strings.ToLower(name))
}
