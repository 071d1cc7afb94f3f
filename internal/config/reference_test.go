package config_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/config"
)

// sections are the mappings of the configuration, each with a file in which it holds one key that
// no mapping has: the refusal names all that it knows.
func sections() map[string]string {
	const (
		target = `targets: { t: { kind: noop } }` + "\n"
		source = `sources: { s: { provider: stripe, secrets: [env:STRIPE_SECRET], `
	)
	out := map[string]string{
		"configuration": `nonsense: 1`,
		"classes":       `classes: { default: { nonsense: 1 } }`,
		"retry":         `targets: { t: { kind: noop, retry: { nonsense: 1 } } }`,
		"breaker":       `targets: { t: { kind: noop, breaker: { nonsense: 1 } } }`,
		"probe":         `targets: { t: { kind: forward, idempotent: false, url: "https://a.example", probe: { nonsense: 1 } } }`,
		"source":        source + `nonsense: 1 } }`,
		"operation":     `sources: { s: { provider: operation, secrets: [env:STRIPE_SECRET], operation: { nonsense: 1 } } }`,
		"route":         target + source + `routes: [{ name: r, target: t, nonsense: 1 }] } }`,
		"order":         target + source + `routes: [{ name: r, target: t, order: { nonsense: 1 } }] } }`,
		"key":           target + source + `routes: [{ name: r, target: t, key: { nonsense: 1 } }] } }`,
		"mail":          target + source + `routes: [{ name: r, target: t, mail: { nonsense: 1 } }] } }`,
		"secret":        `sources: { s: { provider: stripe, secrets: [{ nonsense: 1 }] } }`,
	}
	for _, name := range []string{"database", "seal", "listen", "log", "gate", "bodies", "work"} {
		out[name] = name + `: { nonsense: 1 }`
	}
	for _, kind := range []string{"forward", "sql", "mail", "noop"} {
		out["target "+kind] = `targets: { t: { kind: ` + kind + `, nonsense: 1 } }`
	}
	return out
}

var knownKeys = regexp.MustCompile(`unknown key "nonsense"; known are (.*)`)

// existing are the keys of a section, as the reader itself lists them.
func existing(t *testing.T, name, file string) map[string]bool {
	t.Helper()
	_, err := config.Load(config.Options{File: "x.yml", Content: []byte(file), Environ: environ(), Catalog: loaded(t)})
	if err == nil {
		t.Fatalf("%s: a key that does not exist was taken", name)
	}
	found := knownKeys.FindStringSubmatch(err.Error())
	if found == nil {
		t.Fatalf("%s: no list of keys in %v", name, err)
	}
	out := map[string]bool{}
	for key := range strings.SplitSeq(found[1], ", ") {
		out[key] = true
	}
	return out
}

// reference is what README's tables document: keys by section, and environment variables.
type reference struct {
	keys      map[string]map[string]bool
	variables map[string]bool
}

var (
	quoted    = regexp.MustCompile("`([^`]+)`")
	plainKey  = regexp.MustCompile(`^[a-z_]+$`)
	kindsOf   = regexp.MustCompile(`^((?:forward|sql|mail|noop|, )+): `)
	headings  = regexp.MustCompile(`(?m)^## .*$`)
	tableRows = regexp.MustCompile(`(?m)^\|(.*)\|$`)
)

func readme(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// chapter gives the text under a heading.
func chapter(t *testing.T, text, title string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n## "+title+"\n")
	if !found {
		t.Fatalf("README has no chapter %q", title)
	}
	if next := headings.FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	return rest
}

func rows(text string) [][]string {
	var out [][]string
	for _, row := range tableRows.FindAllStringSubmatch(text, -1) {
		cells := strings.Split(strings.ReplaceAll(row[1], `\|`, "/"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out
}

func tokens(text string) []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func readReference(t *testing.T) *reference {
	t.Helper()
	r := &reference{keys: map[string]map[string]bool{}, variables: map[string]bool{}}
	text := readme(t)
	for _, cells := range rows(chapter(t, text, "Configuration reference")) {
		if len(cells) < 4 || !strings.Contains(cells[0], "`") {
			continue
		}
		r.row(cells[0], strings.Join(cells[3:], " | "))
		r.environment(t, cells[1])
	}
	for _, cells := range rows(chapter(t, text, "Order")) {
		if len(cells) == 3 && cells[0] != "`order` key" && strings.HasPrefix(cells[0], "`") {
			for _, key := range tokens(cells[0]) {
				r.add("order", key)
			}
		}
	}
	for _, key := range []string{"mode", "key", "number"} { // shown in the examples of the chapter and in its text
		r.add("order", key)
	}
	for _, name := range tokens(chapter(t, text, "Configuration reference")) {
		if strings.HasPrefix(name, "ONCEGATE_") && !strings.Contains(name, "=") {
			r.variables[name] = true
		}
	}
	return r
}

func (r *reference) add(section, key string) {
	if !plainKey.MatchString(key) {
		return
	}
	if r.keys[section] == nil {
		r.keys[section] = map[string]bool{}
	}
	r.keys[section][key] = true
}

// row reads one row: the keys of its first cell and, where a key is a mapping, those of its last.
func (r *reference) row(first, what string) {
	what, _, _ = strings.Cut(what, ". ") // the keys are in the first sentence
	inside := func(section string, also ...string) {
		for _, key := range append(tokens(what), also...) {
			if key, _, _ = strings.Cut(key, ":"); key != "off" && key != section {
				r.add(section, key)
			}
		}
	}
	kinds := []string{"forward", "sql", "mail", "noop"}
	if m := kindsOf.FindStringSubmatch(first); m != nil {
		for kind := range strings.SplitSeq(m[1], ", ") {
			for _, key := range tokens(first) {
				r.add("target "+kind, key)
			}
		}
		if strings.Contains(first, "`probe`") {
			inside("probe")
		}
		return
	}
	if strings.HasPrefix(first, "route: ") {
		for _, key := range tokens(first) {
			r.add("route", key)
		}
		switch {
		case strings.Contains(first, "`key`"):
			inside("key")
		case strings.Contains(first, "`mail`"):
			inside("mail")
		}
		return
	}
	section := ""
	for _, key := range tokens(first) {
		switch parts := strings.Split(key, "."); {
		case strings.HasPrefix(key, "targets.<name>."):
			section = "target"
		case key == "sources.<name>.routes[]":
			r.add("source", "routes")
			inside("route")
			continue
		case strings.HasPrefix(key, "sources.<name>."):
			section = "source"
		case key == "classes.<name>":
			r.add("configuration", "classes")
			inside("classes")
			continue
		case len(parts) == 2 && parts[0] != "":
			r.add("configuration", parts[0])
			section = parts[0]
		case len(parts) == 1:
			r.add("configuration", key)
			continue
		}
		last := key[strings.LastIndexByte(key, '.')+1:]
		switch section {
		case "target":
			for _, kind := range kinds {
				r.add("target "+kind, last)
			}
			r.add("configuration", "targets")
		case "source":
			r.add("configuration", "sources")
			fallthrough
		default:
			r.add(section, last)
		}
		switch last {
		case "retry":
			inside("retry")
		case "operation":
			inside("operation")
		}
	}
	if strings.Contains(first, "`.breaker`") || strings.Contains(first, ".breaker`") {
		r.add("breaker", "failures")
		r.add("breaker", "open")
	}
}

// environment reads the variables of a row; one that begins with _ continues the one before it.
func (r *reference) environment(t *testing.T, cell string) {
	t.Helper()
	before := ""
	for _, name := range tokens(cell) {
		if !strings.HasPrefix(name, "_") {
			before = name
			r.variables[name] = true
			continue
		}
		whole := ""
		for stem := before; whole == "" && strings.Contains(stem, "_"); {
			stem = stem[:strings.LastIndexByte(stem, '_')]
			if _, ok := config.Variables()[stem+name]; ok {
				whole = stem + name
			}
		}
		if whole == "" {
			t.Errorf("README: %s after %s is no variable that Oncegate reads", name, before)
			continue
		}
		r.variables[whole] = true
	}
}

// Every key and every variable that exists is in README's reference, and the reference names none
// that does not exist.
func TestReferenceIsComplete(t *testing.T) {
	t.Parallel()
	r := readReference(t)
	for _, key := range []string{"env", "file", "name", "until"} { // in the sentence above the table
		if !strings.Contains(chapter(t, readme(t), "Configuration reference"), key+": ") {
			t.Errorf("README does not say what %s: of a secret is", key)
		}
		r.add("secret", key)
	}
	for name, file := range sections() {
		compare(t, fmt.Sprintf("section %q", name), existing(t, name, file), r.keys[name])
		delete(r.keys, name)
	}
	for name := range r.keys {
		t.Errorf("README documents a section %q that does not exist", name)
	}
	variables := map[string]bool{}
	for name := range config.Variables() {
		variables[name] = true
	}
	compare(t, "the environment", variables, r.variables)
}

func compare(t *testing.T, what string, exist, said map[string]bool) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(exist)) {
		if !said[key] {
			t.Errorf("%s: %s exists and is not in README's reference", what, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if !exist[key] {
			t.Errorf("%s: README's reference names %s, which does not exist", what, key)
		}
	}
}
