package docs

import (
	"maps"
	"strings"

	"github.com/spf13/cobra"
)

// commandTables returns the index of the commands and the content of their pages, by region.
func commandTables(root *cobra.Command) (map[string]string, error) {
	all := runnable(root)
	if err := checkCommandGroups(all); err != nil {
		return nil, err
	}
	shared := sharedFlags(all)
	out := map[string]string{"commands": commandIndex(all)}
	maps.Copy(out, shared.tables(root))
	for _, group := range commandGroups {
		for _, page := range group.pages {
			var texts []string
			for _, cmd := range page.commands(all) {
				texts = append(texts, command(cmd, shared))
			}
			out["commands-"+page.name] = strings.Join(texts, "\n")
		}
	}
	return out, nil
}

// commandIndex lists every command with a link to its page, one table for each group.
func commandIndex(all []*cobra.Command) string {
	var parts []string
	for _, group := range commandGroups {
		var rows [][]string
		for _, page := range group.pages {
			for _, cmd := range page.commands(all) {
				rows = append(rows, []string{linked(cmd.CommandPath(), cmd.CommandPath(), "commands/"), cmd.Short + "."})
			}
		}
		parts = append(parts, "## "+group.title+"\n\n"+table([]string{"command", "what it does"}, rows))
	}
	return strings.Join(parts, "\n")
}

// linked returns a link to the section of a command, which begins with the name of the program. The
// directory leads from the page with the link to the pages of commands.
func linked(text, path, directory string) string {
	return "[`" + text + "`](" + directory + pageOf(strings.Fields(path)[1]) + ".md#" + anchor(path) + ")"
}

// command documents one command.
func command(cmd *cobra.Command, shared flagSets) string {
	var b strings.Builder
	b.WriteString("## " + cmd.CommandPath() + "\n\n")
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	b.WriteString(paragraphs(text) + "\n\n    " + cmd.UseLine() + "\n")
	if cmd.Example != "" {
		b.WriteString("\nFor example:\n\n" + indented(cmd.Example) + "\n")
	}
	own, others := shared.split(cmd)
	if own != "" {
		b.WriteString("\n" + own)
	}
	if others != "" {
		b.WriteString("\n" + others + "\n")
	}
	return b.String()
}

// runnable returns the commands that do something themselves, in the order of the tree.
func runnable(cmd *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range cmd.Commands() {
		switch {
		case sub.Hidden || sub.Name() == "help" || sub.Name() == "completion":
		case sub.HasSubCommands():
			out = append(out, runnable(sub)...)
		default:
			out = append(out, sub)
		}
	}
	return out
}

// paragraphs joins the lines that the help text breaks for a terminal. It keeps indented lines.
func paragraphs(text string) string {
	var out []string
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if !strings.HasPrefix(block, " ") {
			block = strings.Join(strings.Fields(block), " ")
		} else {
			block = indented(block)
		}
		out = append(out, block)
	}
	return strings.Join(out, "\n\n")
}

func indented(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = "    " + strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
