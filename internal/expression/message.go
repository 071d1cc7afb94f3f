package expression

import (
	"regexp"
	"strings"
)

// messages are the forms of the compiler's messages that name its own tokens and functions, with what
// they mean. The first form that matches counts.
var messages = []struct {
	form *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`^Syntax error: missing ('.*?') at '<EOF>'$`), "$1 is missing at the end"},
	{regexp.MustCompile(`^Syntax error: missing ('.*?') at ('.*')$`), "$1 is missing before $2"},
	{regexp.MustCompile(`^Syntax error: .*'(?:.*)<EOF>'.*$`), "the expression ends too early"},
	{regexp.MustCompile(`^Syntax error: (?:mismatched|extraneous) input ('.*?') expecting .*$`), "$1 is not expected here"},
	{regexp.MustCompile(`^Syntax error: no viable alternative at input ('.*')$`), "$1 is not expected here"},
	{regexp.MustCompile(`^Syntax error: token recognition error at: ('.*')$`), "$1 is not expected here"},
	{regexp.MustCompile(`^found no matching overload for '_(\W+)_' applied to '\((\S+), (\S+)\)'$`), "$1 is not defined for $2 and $3"},
	{regexp.MustCompile(`^found no matching overload for '@in' applied to '\((\S+), (\S+)\)'$`), "in is not defined for $1 and $2"},
	{regexp.MustCompile(`^found no matching overload for '(\W)_' applied to '\((\S+)\)'$`), "$1 is not defined for $2"},
	{regexp.MustCompile(`^found no matching overload for '(\w+)' applied to '(\S+)\.\((.*)\)'$`), "$2 has no function $1($3)"},
	{regexp.MustCompile(`^found no matching overload for '(\w+)' applied to '\((.*)\)'$`), "there is no function $1($2)"},
}

// message returns a message of the compiler in words that its author need not be asked about.
func message(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range messages {
		if m.form.MatchString(text) {
			return m.form.ReplaceAllString(text, m.text)
		}
	}
	return strings.TrimPrefix(text, "Syntax error: ")
}
