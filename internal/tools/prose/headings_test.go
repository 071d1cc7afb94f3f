package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestFaultsOfHeadingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text string
		want       string // empty if nothing is wrong
	}{
		"good headings":             {"a.md", "# One page\n\n## Why `Go` and Go?\n\n### A part\n\n## Another part\n", ""},
		"no heading":                {"a.md", "A text.\n", "a.md:1: the page does not begin with a heading of the first level"},
		"an empty page":             {"a.md", "", "a.md:1: the page does not begin"},
		"a deep heading first":      {"a.md", "## One page\n", "a.md:1: the page does not begin"},
		"two of the first level":    {"a.md", "# One page\n\n# Two pages\n", `a.md:3: a page has one heading of the first level: "Two pages" is another`},
		"a level left out":          {"a.md", "# One page\n\n### A part\n", `a.md:3: "A part" leaves out a level`},
		"two equal headings":        {"a.md", "# One page\n\n## A part\n\n## A part\n", `a.md:5: "A part" has the same anchor as the heading of line 3`},
		"two equal anchors":         {"a.md", "# One page\n\n## A `part`\n\n## A part?\n", `a.md:5: "A part?" has the same anchor`},
		"a full stop":               {"a.md", "# One page.\n", `a.md:1: "One page." ends in punctuation`},
		"a colon":                   {"a.md", "# One page\n\n## A part:\n", `a.md:3: "A part:" ends in punctuation`},
		"title case":                {"a.md", "# One Page\n", `a.md:1: "One Page" is not written as a sentence: "Page"`},
		"a small letter first":      {"a.md", "# one page\n", `a.md:1: "one page" is not written as a sentence: "one"`},
		"a name in the middle":      {"a.md", "# Targets on Kubernetes and SQL\n", ""},
		"a name with a genitive":    {"a.md", "# Recipe: Shopify's orders\n", ""},
		"a small name first":        {"a.md", "# oncegate serve\n", ""},
		"a heading in code":         {"a.md", "# One page\n\n```sh\n# One Comment.\n```\n", ""},
		"the page of a product":     {"providers/docs/a.md", "# Adobe Commerce webhooks\n", ""},
		"a part of a product":       {"providers/docs/a.md", "# Adobe Commerce\n\n## Its Settings\n", `a.md:3: "Its Settings" is not written`},
		"a word of another page":    {"docs/b.md", "# The Page\n", `b.md:1: "The Page" is not written`},
		"a hash without a space":    {"a.md", "# One page\n\n#hashtag.\n", ""},
		"a page of README.md, only": {"README.md", "# Oncegate\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkPlant(t, c.file, c.text, c.want)
		})
	}
}

// checkPlant has a tree with one file checked. want is the expected fault; if it is empty, nothing may be wrong.
func checkPlant(t *testing.T, file, text, want string) {
	t.Helper()
	var out, problems bytes.Buffer
	code := run(plant(t, map[string]string{file: text}), &out, &problems)
	if (code == 0) != (want == "") || code > 1 || !strings.Contains(problems.String(), want) {
		t.Errorf("code %d, want %q:\n%s%s", code, want, &out, &problems)
	}
}
