// Command prose checks the English of the repository. It counts turns of phrase that a reader has to decode, in Go
// comments, Markdown and the help of the command line, and it lists doc comments that do not begin with the name that
// they document. In Markdown and the help it finds misspelt words, and it checks the headings of each page. It exits with
// 1 if a count is above its budget or if there is another fault. Without an argument it checks the working directory.
//
//	prose DIRECTORY
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	os.Exit(run(root, os.Stdout, os.Stderr))
}

// run checks the tree under root and returns the exit code. It writes the counts to out, and the faults to problems.
func run(root string, out, problems io.Writer) int {
	found, err := read(root)
	if err != nil {
		fmt.Fprintln(problems, "prose:", err)
		return 2
	}
	code := 0
	for _, k := range kinds {
		c := count(found.lines[k])
		fmt.Fprintf(out, "%s: %.1f decoded phrases per 10,000 words, budget %d (%d in %d words)\n", k, c.rate(), budgets[k], c.phrases, c.words)
		if c.rate() <= float64(budgets[k]) {
			continue
		}
		code = 1
		fmt.Fprintf(problems, "%s: above the budget. Rewrite these sentences: name the actor, one idea in each.\n", k)
		for _, l := range c.worst(20) {
			fmt.Fprintf(problems, "%s:%d: %s\n", l.file, l.number, l.text)
		}
	}
	for _, u := range found.unnamed {
		code = 1
		fmt.Fprintf(problems, "%s:%d: the doc comment of %s begins with %q, not with the name\n", u.file, u.number, u.name, u.begins)
	}
	for _, f := range found.faults() {
		code = 1
		fmt.Fprintf(problems, "%s:%d: %s\n", f.file, f.number, f.text)
	}
	return code
}

// fault is something wrong in a line of a text.
type fault struct {
	file   string
	number int
	text   string
}

// faults returns the faults of spelling and of headings.
func (t *tree) faults() []fault {
	out := slices.Concat(faultsOfSpelling(t.lines[markdown]), faultsOfSpelling(t.lines[help]))
	for _, file := range slices.Sorted(maps.Keys(t.pages)) {
		out = append(out, faultsOfHeadings(file, headingsIn(t.pages[file]))...)
	}
	return out
}
