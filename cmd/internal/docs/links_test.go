package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/cmd/internal/docs"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	picture  = regexp.MustCompile(`\b(?:src|srcset)="([^"]+)"`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fence    = regexp.MustCompile("(?ms)^```.*?^```$")
	markdown = regexp.MustCompile("[`*]|\\[([^]]*)\\]\\([^)]*\\)")
)

// Every link inside the repository leads to an existing file and, if it names one, to an existing
// heading. Pictures exist, too.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	checked := 0
	for from, content := range all {
		text := fence.ReplaceAllString(content, "")
		for _, m := range slices.Concat(link.FindAllStringSubmatch(text, -1), picture.FindAllStringSubmatch(text, -1)) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			checked++
			to := from
			if target != "" {
				to = path.Join(path.Dir(from), target)
			}
			if _, err := os.Stat(filepath.Join(docs.Root, to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", from, m[1])
				continue
			}
			if anchor == "" {
				continue
			}
			text, known := all[to]
			if !known {
				content, err := os.ReadFile(filepath.Join(docs.Root, to))
				if err != nil {
					t.Fatal(err)
				}
				text = string(content)
			}
			if !anchors(text)[anchor] {
				t.Errorf("%s links to %s, and %s has no such heading", from, m[1], to)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links were found", checked)
	}
}

// anchors returns the anchors of a page's headings, in GitHub's form.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(markdown.ReplaceAllString(m[1], "$1")) {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				b.WriteRune(r)
			case r == ' ':
				b.WriteByte('-')
			}
		}
		out[b.String()] = true
	}
	return out
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	t.Parallel()
	got := anchors("# Targets over HTTP (`forward`)\n```sh\n# no heading\n```\n## A [link](x.md) in it\n")
	for _, want := range []string{"targets-over-http-forward", "a-link-in-it"} {
		if !got[want] {
			t.Errorf("%s is not among %v", want, got)
		}
	}
	if len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// The index links to every page of docs. A page in the directory of another page, such as
// docs/reference/commands/events.md, is linked to by that page.
func TestTheIndexNamesEveryPage(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for name := range all {
		if !strings.HasPrefix(name, "docs/") || name == "docs/README.md" {
			continue
		}
		index := "docs/README.md"
		if parent := path.Dir(name) + ".md"; all[parent] != "" {
			index = parent
		}
		if to := strings.TrimPrefix(name, path.Dir(index)+"/"); !strings.Contains(all[index], "]("+to) {
			t.Errorf("%s does not link to %s", index, name)
		}
	}
}

// The tests, scripts, metrics and commands that the pages name exist.
func TestNamesExist(t *testing.T) {
	t.Parallel()
	tests := testFunctions(t)
	metrics, err := docs.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range metrics {
		known[m.Name] = true
	}
	var (
		testName   = regexp.MustCompile("`(Test[A-Z]\\w+)`")
		scriptName = regexp.MustCompile(`(?:^|[^\w/])(?:\./)?(scripts/[a-z-]+)`)
		sourcePath = regexp.MustCompile("`((?:cmd|inbox|internal|jobs|providers|migrations)/[\\w./*]+)`")
		metricName = regexp.MustCompile("`(oncegate_[a-z_]+[a-z])(?:\\{[^}]*\\})?`")
	)
	for from, content := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(content, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names the test %s, which does not exist", from, m[1])
			}
		}
		for _, m := range scriptName.FindAllStringSubmatch(content, -1) {
			if _, err := os.Stat(filepath.Join(docs.Root, m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", from, m[1])
			}
		}
		if from == "CONTRIBUTING.md" {
			for _, m := range sourcePath.FindAllStringSubmatch(content, -1) {
				if found, err := filepath.Glob(filepath.Join(docs.Root, m[1])); err != nil || len(found) == 0 {
					t.Errorf("%s names %s, which does not exist", from, m[1])
				}
			}
		}
		for _, m := range metricName.FindAllStringSubmatch(content, -1) {
			if !known[m[1]] {
				t.Errorf("%s names the metric %s, which does not exist", from, m[1])
			}
		}
		for _, name := range missingCommands(content) {
			t.Errorf("%s names the command oncegate %s, which does not exist", from, name)
		}
	}
}

var namedCommand = regexp.MustCompile("`oncegate ([a-z]+(?: [a-z]+)?)")

// missingCommands returns the commands that a text names and that do not exist.
func missingCommands(text string) (missing []string) {
	root := cli.Command()
	for _, m := range namedCommand.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[1])
		if found, _, err := root.Find(words); err != nil || found == root || found.HasSubCommands() && len(words) > 1 {
			missing = append(missing, m[1])
		}
	}
	return missing
}

// The doc comments of the packages that programs may import name commands that exist: `go doc` shows them.
func TestCommandsInDocCommentsExist(t *testing.T) {
	t.Parallel()
	if got := missingCommands("see `oncegate keys init` and `oncegate keys list`"); len(got) != 1 || got[0] != "keys init" {
		t.Fatalf("the check finds %q", got)
	}
	comments := 0
	err := filepath.WalkDir(docs.Root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && path != docs.Root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "internal" || entry.Name() == "cmd") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			comments++
			for _, name := range missingCommands(strings.Join(strings.Fields(group.Text()), " ")) {
				t.Errorf("%s names the command oncegate %s, which does not exist", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if comments < 1000 {
		t.Errorf("only %d comments were read", comments)
	}
}

// testFunctions returns the names of all tests of the repository.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	out := map[string]bool{}
	err := filepath.WalkDir(docs.Root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != docs.Root {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		for _, m := range declaration.FindAllSubmatch(content, -1) {
			out[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The code on the pages is that of examples that are compiled and run: Go examples, recipes, and the files
// of scripts/examples.
func TestCodeIsThatOfExamples(t *testing.T) {
	t.Parallel()
	extensions := map[string]string{".go": "go", ".mjs": "js", ".py": "python"}
	examples := map[string]string{}
	err := filepath.WalkDir(docs.Root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != docs.Root {
			return filepath.SkipDir
		}
		language := extensions[filepath.Ext(path)]
		example := strings.HasSuffix(path, "_test.go") && strings.Contains(entry.Name(), "example") ||
			strings.HasPrefix(path, filepath.Join(docs.Root, "scripts", "examples")+string(filepath.Separator)) ||
			strings.HasPrefix(path, filepath.Join(docs.Root, "docs", "recipes")+string(filepath.Separator))
		if language == "" || !example {
			return nil
		}
		content, err := os.ReadFile(path)
		examples[language] += unindented(string(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for from, content := range pages(t) {
		for _, b := range blocksOf(content) {
			if !slices.Contains([]string{"go", "js", "python"}, b.language) || from == "CONTRIBUTING.md" {
				continue
			}
			found[b.language]++
			if !strings.Contains(examples[b.language], unindented(b.text)) {
				t.Errorf("%s:%d: no example has this code:\n%s", from, b.line, b.text)
			}
		}
	}
	for _, language := range []string{"go", "js", "python"} {
		if found[language] == 0 {
			t.Errorf("no page shows code in %s", language)
		}
	}
}

func unindented(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
