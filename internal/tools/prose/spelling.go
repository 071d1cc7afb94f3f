package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/golangci/misspell"
)

// unspelled matches what is no English in a line of Markdown: code, comments and tags of HTML, and the targets of links.
var unspelled = regexp.MustCompile("`[^`]*`" + `|<[^>]*>|\]\([^)]*\)`)

// spellings finds misspelt words. The documentation is in British English; its verbs end in -ise or -ize as they are.
var spellings = sync.OnceValue(func() *misspell.Replacer {
	r := misspell.New()
	r.AddRuleList(misspell.DictBritish)
	r.Compile()
	return r
})

// spelledNames lists names with American spelling.
var spelledNames = []string{"bitbucket-data-center", "jira-data-center", "Data Center", "NO_COLOR"}

// faultsOfSpelling returns the misspelt words of lines.
func faultsOfSpelling(lines []line) []fault {
	var out []fault
	for _, l := range lines {
		text := unspelled.ReplaceAllStringFunc(l.text, func(code string) string { return strings.Repeat(" ", len(code)) })
		for _, name := range spelledNames {
			text = strings.ReplaceAll(text, name, strings.Repeat(" ", len(name)))
		}
		_, found := spellings().Replace(text)
		slices.SortFunc(found, func(a, b misspell.Diff) int { return a.Column - b.Column })
		for _, d := range found {
			out = append(out, fault{l.file, l.number, fmt.Sprintf("%s: write %s", d.Original, d.Corrected)})
		}
	}
	return out
}
