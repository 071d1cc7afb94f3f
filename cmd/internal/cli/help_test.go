package cli_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/cli"
)

// Every command that does something has an example in its help, and each example is a valid
// command.
func TestEveryCommandHasExamplesThatParse(t *testing.T) {
	t.Parallel()
	var walk func(*cobra.Command)
	commands := 0
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub)
			}
		}
		if cmd.HasSubCommands() {
			return
		}
		commands++
		examples := 0
		for line := range strings.Lines(cmd.Example) {
			for part := range strings.SplitSeq(strings.TrimSpace(line), " | ") {
				typed, _, _ := strings.Cut(part, " < ") // the part that the shell parses
				words := words(t, typed)
				if len(words) == 0 || words[0] != "oncegate" {
					continue
				}
				examples++
				if err := parse(words[1:]); err != nil {
					t.Errorf("%s: the example `%s`: %v", cmd.CommandPath(), part, err)
				}
			}
		}
		if examples == 0 {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
	}
	walk(cli.Command())
	if commands < 70 {
		t.Errorf("only %d commands were found", commands)
	}
}

func TestExamplesThatCannotBeTypedAreNoticed(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"events lst", "events list --sorce x", "events show", "replay status a b"} {
		if parse(words(t, line)) == nil {
			t.Errorf("%q parses", line)
		}
	}
}

// parse runs the steps that precede a command.
func parse(args []string) error {
	root := cli.Command()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	return cmd.ValidateRequiredFlags()
}

// words splits a line into words as a shell does.
func words(t *testing.T, line string) []string {
	t.Helper()
	var out []string
	var word strings.Builder
	quote, begun := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				out = append(out, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		t.Errorf("a quote is not closed: %s", line)
	}
	if begun {
		out = append(out, word.String())
	}
	return out
}
