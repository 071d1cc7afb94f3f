package main

import "testing"

// The expected words are those of British dictionaries.
func TestMisspeltWordsAreRefused(t *testing.T) {
	t.Parallel()
	const page = "# One page\n\n"
	const swapped, shortened = "rec" + "ieved", "occ" + "ured" // in parts, because the linter checks this file
	for name, c := range map[string]struct {
		file, text string
		want       string // empty if nothing is wrong
	}{
		"British words":       {"a.md", page + "The catalogue recognises a licence and the behaviour of colours.\n", ""},
		"a misspelt word":     {"a.md", page + "A delivery is " + swapped + ".\n", "a.md:3: " + swapped + ": write received"},
		"a doubled consonant": {"docs/a.md", page + "The time that this\n" + shortened + ".\n", "a.md:4: " + shortened + ": write occurred"},
		"an American word":    {"a.md", page + "The behavior of a target.\n", "a.md:3: behavior: write behaviour"},
		"an American heading": {"a.md", "# The color of a page\n", "a.md:1: color: write colour"},
		"a link's text":       {"a.md", page + "See [the behavior](x.md).\n", "a.md:3: behavior: write behaviour"},
		"a link's target":     {"a.md", page + "See [the behaviour](behavior.md).\n", ""},
		"code":                {"a.md", page + "Set `color` to `" + shortened + "`.\n", ""},
		"a block of code":     {"a.md", page + "```sh\n" + swapped + " behavior\n```\n", ""},
		"a tag":               {"a.md", page + `A <span style="color:red">tag</span>.` + "\n", ""},
		"a name":              {"a.md", page + "Jira Data Center sends one.\n", ""},
		"the help of a flag":  {"cli/a.go", "package cli\n\nfunc a() { flags.StringVar(&a, \"a\", \"\", \"the color of it\") }\n", "a.go:3: color: write colour"},
		"another text of Go":  {"a.go", "package a\n\nconst a = \"the color\"\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkPlant(t, c.file, c.text, c.want)
		})
	}
}
