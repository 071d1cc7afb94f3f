package docs_test

import (
	"regexp"
	"slices"
	"strings"
)

// block is a fenced block of a page, with the hidden instructions before it. The instructions are
// Markdown comments, which a reader does not see:
//
//	<!-- setup ... -->         shell commands that run before the block
//	<!-- exit: N -->           the block ends with exit code N
//	<!-- in the background --> the block is a process that serves until the page ends
//	<!-- commit -->            the block's SQL is committed instead of rolled back
//	<!-- not run: why -->      the block cannot run here
type block struct {
	line                int
	language, text      string
	setup, exit, notRun string
	background, commit  bool
}

var (
	setupMark  = regexp.MustCompile(`(?s)^<!-- setup\n(.*)\n-->$`)
	exitMark   = regexp.MustCompile(`^<!-- exit: (\d+) -->$`)
	notRunMark = regexp.MustCompile(`^<!-- not run: (.+) -->$`)
)

// blocksOf returns the fenced blocks of a page.
func blocksOf(page string) []block {
	var out []block
	var next block
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "<!--"):
			end := i + slices.IndexFunc(lines[i:], func(l string) bool { return strings.HasSuffix(l, "-->") })
			mark := strings.Join(lines[i:end+1], "\n")
			i = end
			switch {
			case setupMark.MatchString(mark):
				next.setup += setupMark.FindStringSubmatch(mark)[1] + "\n"
			case exitMark.MatchString(mark):
				next.exit = exitMark.FindStringSubmatch(mark)[1]
			case notRunMark.MatchString(mark):
				next.notRun = notRunMark.FindStringSubmatch(mark)[1]
			case mark == "<!-- in the background -->":
				next.background = true
			case mark == "<!-- commit -->":
				next.commit = true
			}
		case strings.HasPrefix(line, "```"):
			next.line, next.language = i+1, strings.TrimPrefix(line, "```")
			end := i + 1 + slices.Index(lines[i+1:], "```")
			next.text = strings.Join(lines[i+1:end], "\n") + "\n"
			i = end
			out = append(out, next)
			next = block{}
		}
	}
	return out
}
