package docs

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commands documents every command and its flags.
func commands(root *cobra.Command) string {
	var b strings.Builder
	var rows [][]string
	for _, cmd := range runnable(root) {
		rows = append(rows, []string{"[`" + cmd.CommandPath() + "`](#" + anchor(cmd.CommandPath()) + ")", cmd.Short + "."})
	}
	b.WriteString(table([]string{"command", "what it does"}, rows))
	b.WriteString("\n## Flags of every command\n\n" + flags(root.PersistentFlags()))
	for _, cmd := range runnable(root) {
		b.WriteString("\n## " + cmd.CommandPath() + "\n\n")
		text := cmd.Long
		if text == "" {
			text = cmd.Short + "."
		}
		b.WriteString(paragraphs(text) + "\n\n")
		b.WriteString("    " + cmd.UseLine() + "\n")
		if cmd.Example != "" {
			b.WriteString("\nFor example:\n\n" + indented(cmd.Example) + "\n")
		}
		if cmd.LocalNonPersistentFlags().HasAvailableFlags() {
			b.WriteString("\n" + flags(cmd.LocalNonPersistentFlags()))
		}
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

func flags(set *pflag.FlagSet) string {
	var rows [][]string
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if kind := f.Value.Type(); kind != "bool" {
			value, _ := pflag.UnquoteUsage(f)
			name += " " + value
		}
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		def := f.DefValue
		if def == "false" || def == "[]" || def == "0" || def == "0s" {
			def = ""
		}
		_, usage := pflag.UnquoteUsage(f)
		rows = append(rows, []string{code(name), code(def), usage})
	})
	return table([]string{"flag", "default", "meaning"}, rows)
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
