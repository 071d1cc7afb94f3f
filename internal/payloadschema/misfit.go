package payloadschema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Limits for messages. The names of members come from the payload.
const (
	maxMisfits = 5
	maxName    = 64
	maxPath    = 256
	maxWanted  = 120
)

// describe returns the first innermost misfits, sorted by path.
func describe(misfit *jsonschema.ValidationError) (paths []string, detail string) {
	found := map[string]string{}
	leaves(misfit, found)
	paths = slices.Sorted(maps.Keys(found))
	more := ""
	if n := len(paths) - maxMisfits; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
		paths = paths[:maxMisfits]
	}
	lines := make([]string, len(paths))
	for i, path := range paths {
		lines[i] = path + ": " + found[path]
	}
	return paths, strings.Join(lines, "; ") + more
}

// leaves collects one misfit per path.
func leaves(misfit *jsonschema.ValidationError, found map[string]string) {
	for _, cause := range misfit.Causes {
		leaves(cause, found)
	}
	if len(misfit.Causes) > 0 {
		return
	}
	path := ""
	for _, step := range misfit.InstanceLocation {
		path = joinPath(path, step)
	}
	path = at(path)
	if what := wanted(misfit.ErrorKind); found[path] == "" || what < found[path] {
		found[path] = what
	}
}

// wanted returns what the schema requires. It quotes the schema and names of members, never values
// of the payload.
func wanted(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "want " + strings.Join(k.Want, " or ")
	case *kind.Required:
		return "lacks " + names(k.Missing)
	case *kind.DependentRequired:
		return "lacks " + names(k.Missing)
	case *kind.Dependency:
		return "lacks " + names(k.Missing)
	case *kind.AdditionalProperties:
		return "has members that the schema does not know: " + names(k.Properties)
	case *kind.Enum:
		return "want one of " + clip(fmt.Sprintf("%v", k.Want))
	case *kind.Const:
		return "want " + clip(fmt.Sprintf("%v", k.Want))
	case *kind.Format:
		return "want the format " + k.Want
	case *kind.Pattern:
		return "want the pattern " + clip(k.Want)
	case *kind.MinLength:
		return "want at least " + strconv.Itoa(k.Want) + " characters"
	case *kind.MaxLength:
		return "want at most " + strconv.Itoa(k.Want) + " characters"
	case *kind.MinItems:
		return "want at least " + strconv.Itoa(k.Want) + " elements"
	case *kind.MaxItems:
		return "want at most " + strconv.Itoa(k.Want) + " elements"
	case *kind.Minimum:
		return "want at least " + k.Want.RatString()
	case *kind.Maximum:
		return "want at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "want more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "want less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "want a multiple of " + k.Want.RatString()
	case *kind.FalseSchema:
		return "is not allowed"
	}
	return "does not fit " + strings.Join(k.KeywordPath(), ".")
}

func names(all []string) string {
	slices.Sort(all)
	shown := make([]string, 0, maxMisfits)
	for _, name := range all[:min(len(all), maxMisfits)] {
		shown = append(shown, quote(name))
	}
	if len(all) > maxMisfits {
		shown = append(shown, "...")
	}
	return strings.Join(shown, ", ")
}

// quote shortens a long member name and quotes one with special characters, for use in a line of
// text.
func quote(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "..."
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '.' || r == ';' || r == ':' }) {
		return strconv.Quote(name)
	}
	return name
}

func joinPath(path, name string) string {
	if len(path) > maxPath {
		return path
	}
	if path == "" {
		return quote(name)
	}
	return path + "." + quote(name)
}

// at returns a path for display; the path of the whole payload is $.
func at(path string) string {
	if path == "" {
		return "$"
	}
	return path
}

func clip(text string) string {
	if len(text) > maxWanted {
		return strings.ToValidUTF8(text[:maxWanted], "") + "..."
	}
	return text
}
