package docs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// commandGroup is a part of the index of commands.
type commandGroup struct {
	title string
	pages []commandPage
}

// commandPage is a page of docs/reference/commands. It documents every command that begins with one
// of the words: a noun with its commands, or single commands that belong together.
type commandPage struct {
	name  string
	words []string // default: the name
}

// commandGroups lists the pages in the order of the index.
var commandGroups = []commandGroup{
	{"Server", []commandPage{
		{name: "server", words: []string{"serve", "reload", "ready", "status", "doctor", "nodes", "version"}},
		{name: "config", words: []string{"config", "init", "explain"}},
		{name: "migrate"},
		{name: "history"},
	}},
	{"Development", []commandPage{
		{name: "dev", words: []string{"dev", "listen"}},
		{name: "send", words: []string{"send", "call"}},
		{name: "providers"},
		{name: "drill"},
	}},
	{"Deliveries and events", []commandPage{
		{name: "events"}, {name: "conflicts"}, {name: "refusals"}, {name: "reconcile"}, {name: "outbox"},
	}},
	{"Effects", []commandPage{
		{name: "effects"}, {name: "dead"}, {name: "replay"}, {name: "streams"}, {name: "suppressions"},
	}},
	{"Sources, routes and targets", []commandPage{
		{name: "sources"}, {name: "routes"}, {name: "targets"},
	}},
	{"Access and audit", []commandPage{
		{name: "tokens"}, {name: "logins"}, {name: "sessions"}, {name: "audit"}, {name: "notifications"},
	}},
	{"Storage", []commandPage{
		{name: "keys"}, {name: "erase", words: []string{"erase", "prune"}},
	}},
}

// commands returns the commands of the page, in the order of its words.
func (p commandPage) commands(all []*cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, word := range p.firstWords() {
		for _, cmd := range all {
			if firstWord(cmd) == word {
				out = append(out, cmd)
			}
		}
	}
	return out
}

func (p commandPage) firstWords() []string {
	if p.words == nil {
		return []string{p.name}
	}
	return p.words
}

// firstWord returns the word after the program's name.
func firstWord(cmd *cobra.Command) string { return strings.Fields(cmd.CommandPath())[1] }

// pageOf returns the name of the page that documents the commands that begin with a word.
func pageOf(word string) string {
	for _, group := range commandGroups {
		for _, page := range group.pages {
			if slices.Contains(page.firstWords(), word) {
				return page.name
			}
		}
	}
	return ""
}

// checkCommandGroups returns an error if a command is on no page, or a page has no command.
func checkCommandGroups(all []*cobra.Command) error {
	var err error
	for _, cmd := range all {
		if pageOf(firstWord(cmd)) == "" {
			err = cmp.Or(err, fmt.Errorf("no page documents `%s`: add it to commandGroups", cmd.CommandPath()))
		}
	}
	for _, group := range commandGroups {
		for _, page := range group.pages {
			if len(page.commands(all)) == 0 {
				err = cmp.Or(err, fmt.Errorf("the page %s documents no command", page.name))
			}
		}
	}
	return err
}
