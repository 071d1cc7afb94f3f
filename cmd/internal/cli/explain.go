package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/docs"
	"github.com/oncegate/oncegate/internal/manual"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// explanation is a place of the documentation that explains a word.
type explanation struct {
	Word   string        `json:"word"`
	Page   string        `json:"page"`
	Title  string        `json:"title"`
	Fields []explainedBy `json:"fields"`
}

type explainedBy struct {
	Name string `json:"name,omitempty"`
	Text string `json:"text"`
}

func (s *shell) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain <word>",
		Short: "Explain a code, a reason, a state, a metric, an alert, a configuration key or another word",
		Long: "Explain a code of an answer, a reason, a state, a metric, an alert, a configuration key, or a word of\n" +
			"the glossary. The documentation is in the binary, so the command needs no network and no database.\n" +
			"Every server shows the whole of it at /docs of its private listener.",
		Example: "  oncegate explain attempts_exhausted\n" +
			"  oncegate explain OncegateDeadLetters\n" +
			"  oncegate explain bodies.least_rate",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := manual.New(docs.Files(), "/docs", "")
			if err != nil {
				return err //nolint:wrapcheck // it says what it is about
			}
			found := m.Define(args[0])
			if len(found) == 0 {
				return errorf(errorcode.UnknownWord, "the documentation explains no %s; %ssearch it at /docs of a server's private listener", clean(args[0]), yamltree.DidYouMean(m.Words(), args[0]))
			}
			explanations := make([]explanation, len(found))
			for i, d := range found {
				explanations[i] = explanationOf(args[0], d)
			}
			if s.output == "json" {
				return s.json(explanations)
			}
			for i, e := range explanations {
				if i > 0 {
					fmt.Fprintln(s.out)
				}
				e.write(s.out, s.width())
			}
			return nil
		},
	}
}

func explanationOf(word string, d manual.Definition) explanation {
	e := explanation{Word: word, Page: "/docs/" + d.Page.Path, Title: d.Page.Title}
	if d.Anchor != "" {
		e.Page += "#" + d.Anchor
	}
	if d.Heading != d.Page.Title {
		e.Title += ": " + d.Heading
	}
	for _, f := range d.Fields {
		e.Fields = append(e.Fields, explainedBy{f.Name, f.Value})
	}
	return e
}

// write writes an explanation as text that fits into a width.
func (e explanation) write(w io.Writer, width int) {
	fmt.Fprintf(w, "%s (%s, %s)\n", e.Word, e.Title, e.Page)
	for _, f := range e.Fields {
		text := f.Text
		if f.Name != "" {
			text = f.Name + ": " + text
		}
		for paragraph := range strings.SplitSeq(text, "\n") {
			for _, line := range filled(paragraph, width-2) {
				fmt.Fprintln(w, "  "+line)
			}
		}
	}
}

// filled breaks a text into lines of at most a width, between words. A longer word has a line for itself. Where the width is not known, for
// example in a file, the text stays one line.
func filled(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
