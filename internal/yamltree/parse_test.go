package yamltree_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// A document that cannot be parsed is rejected as a whole, with the position of the error.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"a: b\n---\nc: d\n":               "x.yml:3:2: one document only, not several separated by ---",
		"a: b: c\n":                       "x.yml:1:",
		"a: [b\n":                         "x.yml:1:",
		"a: " + strings.Repeat("[", 5000): "x.yml:1:",
	} {
		report := &yamltree.Report{File: "x.yml"}
		if yamltree.Parse([]byte(content), report) != nil {
			t.Errorf("%.20q is taken", content)
		}
		if err := report.Err(); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: %v, want one line that begins with %s", content, err, want)
		}
	}
	for _, deep := range []string{strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat("{ a: ", 200) + strings.Repeat("}", 200)} {
		report := &yamltree.Report{}
		yamltree.Parse([]byte(deep), report)
		if err := report.Err(); err == nil || !strings.HasSuffix(err.Error(), "nested too deeply") {
			t.Errorf("%.20q: %v", deep, err)
		}
	}
}

// An empty document is an empty mapping and not a problem by itself.
func TestParseEmpty(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "\n", "# a comment\n", "---\n", "---\n---\n", "~\n"} {
		report := &yamltree.Report{}
		root := yamltree.Parse([]byte(content), report)
		if !root.IsEmpty() || root == nil || len(root.Members()) != 0 || report.Err() != nil {
			t.Errorf("%q: %v", content, report.Err())
		}
	}
}

// All problems are reported, in the order of the file, with paths that use the names set by Rename.
// A byte order mark is not part of the first key.
func TestParseByteOrderMark(t *testing.T) {
	t.Parallel()
	var report yamltree.Report
	root := yamltree.Parse([]byte("\ufeffkey: value\n"), &report)
	if err := report.Err(); err != nil || root.Member("key") == nil {
		t.Errorf("%v, %v", root, err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	report := &yamltree.Report{File: "x.yml", Redact: func(s string) string { return strings.ReplaceAll(s, "secret", "xxxxx") }}
	root := yamltree.Parse([]byte("routes:\n  - name: ledger\n    tpyes: a\n    limit: my secret\nother: 1\nlast: 2\n"), report)
	var limit int
	var other string
	route := root.Member("routes").Items()[0]
	route.Rename(route.Member("name").Value())
	yamltree.Text(&other)(root.Member("other"))
	root.Member("last").Below("more").Fail("is missing")
	route.Fields(map[string]func(*yamltree.Node){"name": func(*yamltree.Node) {}, "types": nil, "limit": func(n *yamltree.Node) {
		yamltree.Read(n, &limit, func(s string) (int, error) { return yamltree.ParseInteger(s, 1) })
	}})
	if root.Member("routes").Sound() || route.Sound() || !route.Member("name").Sound() || !root.Member("other").Sound() || !root.Member("absent").Sound() {
		t.Error("what is sound is not told apart from what is not")
	}
	if route.Lacks("types") || route.Lacks("name") || !route.Lacks("target") {
		t.Error("a misspelt key counts as missing, or one that is there")
	}
	const want = "x.yml:3:5: routes.ledger: unknown key \"tpyes\"; did you mean types? known are limit, name, types\n" +
		"x.yml:4:12: routes.ledger.limit: \"my xxxxx\": not a whole number from 1\n" +
		"x.yml:6:1: last.more: is missing"
	if err := report.Err(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if other != "1" || limit != 0 {
		t.Errorf("read %q and %d", other, limit)
	}
}

// FuzzParse looks for documents that break the readers: every method of every node must work, and
// every problem must be one line.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: [b, { c: d }]\n", "? [a]\n: b\n", "- &x a\n- *x\n", "%YAML 1.2\n---\na: |\n  b\n", "{ <<: {} }", "a: !!binary aGk=\n", "\"\\xff\": 1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		report := &yamltree.Report{File: "x.yml"}
		if root := yamltree.Parse(content, report); root != nil {
			walk(root)
		}
		if err := report.Err(); err != nil {
			for _, p := range err.(yamltree.Problems) { //nolint:errorlint // nothing wraps it
				if strings.ContainsAny(p.Path, "\r\n") || p.Line < 0 || p.Column < 0 {
					t.Errorf("%q", p.String())
				}
			}
		}
	})
}

func walk(n *yamltree.Node) {
	var text string
	yamltree.Text(&text)(n)
	n.Fields(nil)
	for _, item := range n.Items() {
		if item != n {
			walk(item)
		}
	}
	for _, member := range n.Members() {
		walk(member)
	}
}
