package main

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// kind is a kind of text with a budget.
type kind string

// The kinds of text.
const (
	comments kind = "Go comments"
	markdown kind = "Markdown"
	help     kind = "help of the command line"
)

// kinds lists the kinds in the order of the report.
var kinds = []kind{comments, markdown, help}

// budgets bounds the phrases per 10,000 words. Some uses of each phrase are plain English, so no budget is 0.
var budgets = map[kind]int{comments: 15, markdown: 10, help: 10}

// phrases lists turns of phrase that hide the actor or the thing: a pronoun without a noun, a state without an owner.
var phrases = []string{
	// Persons and things without a name.
	`whoever`, `whatever`, `somebody`, `nobody`, `those of`, `that of`, `of its own`,
	// Clauses in place of a noun.
	`what is`, `what became`, `becomes of`, `became of`, `as it is`, `is to be`,
	// Verbs that a more exact verb replaces.
	`gives`, `tells`, `is told`, `are told`, `holds`, `stands`, `goes on`, `go on`, `lets go`,
	// Places and times in place of an order.
	`beside`, `behind`, `anew`, `for ever`,
}

// phrase matches any of the phrases as whole words.
var phrase = regexp.MustCompile(`(?i)\b(?:` + strings.Join(phrases, "|") + `)\b`)

// line is one line of text for readers.
type line struct {
	file    string
	number  int
	text    string
	phrases int
}

// tally is the count of a kind of text.
type tally struct {
	words, phrases int
	hits           []line
}

// count counts words and phrases.
func count(lines []line) tally {
	var t tally
	for _, l := range lines {
		l.phrases = len(phrase.FindAllString(l.text, -1))
		t.words += len(strings.Fields(l.text))
		t.phrases += l.phrases
		if l.phrases > 0 {
			t.hits = append(t.hits, l)
		}
	}
	return t
}

// rate returns the phrases per 10,000 words.
func (t tally) rate() float64 {
	return 10_000 * float64(t.phrases) / float64(max(t.words, 1))
}

// worst returns the n lines with the most phrases, in the order of the files among equals.
func (t tally) worst(n int) []line {
	sorted := slices.Clone(t.hits)
	slices.SortStableFunc(sorted, func(a, b line) int { return cmp.Compare(b.phrases, a.phrases) })
	return sorted[:min(n, len(sorted))]
}
