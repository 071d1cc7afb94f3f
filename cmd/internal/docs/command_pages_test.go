package docs_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/cmd/internal/docs"
)

// Every command has one section, and every flag of it is in the table of the section or in a table of shared flags that
// the section links to, with the text of its help.
func TestEveryFlagIsDocumented(t *testing.T) {
	t.Parallel()
	tables, err := docs.Tables(cli.Command())
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for name, text := range tables {
		if strings.HasPrefix(name, "commands-") {
			all.WriteString("\n" + text)
		}
	}
	links := map[string]string{"#flags-of-lists": tables["flags-of-lists"], "#flags-of-decisions": tables["flags-of-decisions"]}
	checked, shared := 0, 0
	for _, cmd := range leaves(cli.Command()) {
		parts := strings.Split(all.String(), "\n## "+cmd.CommandPath()+"\n")
		if len(parts) != 2 {
			t.Errorf("%s has %d sections", cmd.CommandPath(), len(parts)-1)
			continue
		}
		section, _, _ := strings.Cut(parts[1], "\n## ")
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			checked++
			if documents(section, f) {
				return
			}
			for link, table := range links {
				if strings.Contains(section, link) && documents(table, f) {
					shared++
					return
				}
			}
			t.Errorf("nothing documents --%s of %s", f.Name, cmd.CommandPath())
		})
	}
	if checked < 300 || shared < 100 {
		t.Errorf("only %d flags were found, and %d shared ones", checked, shared)
	}
}

// documents reports whether a table has the flag with the text of its help.
func documents(table string, f *pflag.Flag) bool {
	_, usage := pflag.UnquoteUsage(f)
	cell := strings.ReplaceAll(strings.Join(strings.Fields(usage), " "), "|", `\|`)
	for row := range strings.SplitSeq(table, "\n") {
		if (strings.Contains(row, "`--"+f.Name+"`") || strings.Contains(row, "`--"+f.Name+" ") || strings.Contains(row, ", --"+f.Name+" ")) && strings.HasSuffix(row, "| "+cell+" |") {
			return true
		}
	}
	return false
}

// A command that no page documents, and a page without a command, are errors.
func TestCommandsAndPagesFit(t *testing.T) {
	t.Parallel()
	added := cli.Command()
	added.AddCommand(&cobra.Command{Use: "tickle", Short: "Tickle", Run: func(*cobra.Command, []string) {}})
	if _, err := docs.Tables(added); err == nil || err.Error() != "no page documents `oncegate tickle`: add it to commandGroups" {
		t.Errorf("a command without a page: %v", err)
	}
	removed := cli.Command()
	for _, cmd := range removed.Commands() {
		if cmd.Name() == "outbox" {
			removed.RemoveCommand(cmd)
		}
	}
	if _, err := docs.Tables(removed); err == nil || err.Error() != "the page outbox documents no command" {
		t.Errorf("a page without a command: %v", err)
	}
}
