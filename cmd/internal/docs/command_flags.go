package docs

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagSet is a group of flags that many commands have, so that one table on the page of all commands documents them.
type flagSet struct {
	region, title string
	like          string   // the command that represents the others
	names         []string // of the flags
	flags         *pflag.FlagSet
}

type flagSets []flagSet

// sharedFlags returns the groups of flags with the flags of the commands that represent them.
func sharedFlags(all []*cobra.Command) flagSets {
	sets := flagSets{
		{region: "flags-of-lists", title: "flags of lists", like: "oncegate events list", names: []string{"after", "all", "columns", "limit", "remember", "wide"}},
		{region: "flags-of-decisions", title: "flags of decisions", like: "oncegate dead discard", names: []string{"actor", "yes"}},
	}
	for i := range sets {
		sets[i].flags = pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, cmd := range all {
			for _, name := range sets[i].names {
				if flag := cmd.Flags().Lookup(name); flag != nil && cmd.CommandPath() == sets[i].like {
					sets[i].flags.AddFlag(flag)
				}
			}
		}
	}
	return sets
}

// tables returns the tables of the shared flags, and the table of the flags of every command.
func (s flagSets) tables(root *cobra.Command) map[string]string {
	out := map[string]string{"flags": flags(root.PersistentFlags())}
	for _, set := range s {
		out[set.region] = flags(set.flags)
	}
	return out
}

// split returns the table of the flags that only this command documents, and a sentence that leads to the others. A flag
// with the name of a shared one and another meaning is the command's own.
func (s flagSets) split(cmd *cobra.Command) (table, others string) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	var links []string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		for _, set := range s {
			if same := set.flags.Lookup(f.Name); same != nil && same.Usage == f.Usage && same.DefValue == f.DefValue {
				if link := "[" + set.title + "](../commands.md#" + anchor(set.title) + ")"; len(links) == 0 || links[len(links)-1] != link {
					links = append(links, link)
				}
				return
			}
		}
		own.AddFlag(f)
	})
	if own.HasAvailableFlags() {
		table = flags(own)
	}
	if len(links) > 0 {
		others = "It also takes the " + strings.Join(links, " and the ") + "."
	}
	return table, others
}

// flags returns the table of a set of flags.
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
