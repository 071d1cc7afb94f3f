package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// heading is a heading of a Markdown page.
type heading struct {
	number int // of the line
	level  int
	text   string
}

// headingLine matches a heading outside fenced code.
var headingLine = regexp.MustCompile(`^(#{1,6}) +(.+)$`)

// headingsIn returns the headings among the lines of one page.
func headingsIn(page []line) []heading {
	var out []heading
	for _, l := range page {
		if m := headingLine.FindStringSubmatch(l.text); m != nil {
			out = append(out, heading{l.number, len(m[1]), m[2]})
		}
	}
	return out
}

// faultsOfHeadings returns what is wrong with the headings of a page: it has one heading of the first level, which is the
// first, no level is left out on the way down, no two have the same anchor, none ends in punctuation, and each is
// written as a sentence.
func faultsOfHeadings(file string, all []heading) []fault {
	var out []fault
	report := func(number int, format string, args ...any) {
		out = append(out, fault{file, number, fmt.Sprintf(format, args...)})
	}
	if len(all) == 0 || all[0].level != 1 {
		report(1, "the page does not begin with a heading of the first level")
	}
	level, anchors := 0, map[string]int{}
	for i, h := range all {
		switch {
		case h.level == 1 && i > 0:
			report(h.number, "a page has one heading of the first level: %q is another", h.text)
		case h.level > level+1 && i > 0:
			report(h.number, "%q leaves out a level", h.text)
		}
		level = h.level
		if before := anchors[anchorOf(h.text)]; before > 0 {
			report(h.number, "%q has the same anchor as the heading of line %d", h.text, before)
		}
		anchors[anchorOf(h.text)] = h.number
		if strings.ContainsRune(".,;:!", rune(h.text[len(h.text)-1])) {
			report(h.number, "%q ends in punctuation", h.text)
		}
		if isProductPage := strings.Contains(filepath.ToSlash(file), "providers/docs/"); isProductPage && h.level == 1 {
			continue // the name of a product
		}
		if word := wrongCase(h.text); word != "" {
			report(h.number, "%q is not written as a sentence: %q", h.text, word)
		}
	}
	return out
}

// anchorOf returns the anchor of a heading, in GitHub's form.
func anchorOf(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// inlineCode matches code within a line.
var inlineCode = regexp.MustCompile("`[^`]*`")

// capitalized matches a word with a capital and small letters after it. Abbreviations such as SQL match not.
var capitalized = regexp.MustCompile(`^[A-Z][a-z]+$`)

// wrongCase returns the first word of a heading whose case is wrong: the first word begins with a capital, and the others
// do not, unless they are names.
func wrongCase(text string) string {
	plain := inlineCode.ReplaceAllString(text, "`")
	words := strings.FieldsFunc(plain, func(r rune) bool { return strings.ContainsRune(" ,:;/()?!.", r) })
	for i, word := range words {
		word = strings.TrimSuffix(word, "'s")
		switch {
		case i == 0 && unicode.IsLower(rune(word[0])) && !slices.Contains(smallNames, word):
			return words[i]
		case i > 0 && capitalized.MatchString(word) && !slices.Contains(names, word):
			return words[i]
		}
	}
	return ""
}

// names lists the names that headings have after their first word.
var names = []string{
	"Connect", "Debian", "Fedora", "Go", "Hat", "Helm", "Inbox", "Kubernetes", "Oncegate", "Red", "River", "Shopify", "Stripe", "Ubuntu",
}

// smallNames lists the names that begin a heading with a small letter.
var smallNames = []string{"oncegate", "systemd"}
