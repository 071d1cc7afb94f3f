package notification

import (
	"fmt"
	"strings"
)

// The types of the events. Routes select by them: never change.
const (
	// Opened says that things began to wait, or that ten times as many wait.
	Opened = "attention.opened"
	// Resolved says that things that operators were told about are over.
	Resolved = "attention.resolved"
	// Digest has everything that waits. It comes once a day, also if nothing waits.
	Digest = "attention.digest"
	// Test is sent because an operator asked for it.
	Test = "attention.test"
)

// message is the body of an event.
type message struct {
	// Title is one line, for a subject or a notification on a phone. Text is the whole message in plain text.
	Title string `json:"title"`
	Text  string `json:"text"`

	// URL is the console's start page. It is absent if console.url is not set.
	URL string `json:"url,omitempty"`

	// Waiting is how many things wait in all.
	Waiting int `json:"waiting"`

	Items []item `json:"items"`
}

// item is one thing in a message.
type item struct {
	Thing

	// Action is what to do.
	Action string `json:"action,omitempty"`
}

// longest is how many things a message names.
const longest = 50

// newMessage makes the message of some things, of which waiting wait in all. title says what happened to them, with the number.
func newMessage(kind, url string, things []Open, waiting int) message {
	sorted(things)
	m := message{URL: url, Waiting: waiting, Items: []item{}}
	var text strings.Builder
	for i := range things {
		if i == longest {
			fmt.Fprintf(&text, "- and %d more\n", len(things)-longest)
			break
		}
		it := item{Thing: things[i].Thing}
		if kind != Resolved {
			it.Action = it.Kind.Action()
		}
		m.Items = append(m.Items, it)
		text.WriteString("- " + strings.TrimSpace(it.Text+". "+it.Action) + "\n")
	}
	m.Title = title(kind, m.Items, len(things))
	m.Text = m.Title
	if kind != Digest && len(m.Items) == 1 { // the title names it
		m.Text = strings.TrimSpace(m.Title + ". " + m.Items[0].Action)
	} else if text.Len() > 0 {
		m.Text += "\n\n" + strings.TrimSuffix(text.String(), "\n")
	}
	if kind != Digest && kind != Test {
		m.Text += "\n\n" + ofAll(waiting)
	}
	if url != "" {
		m.Text += "\n" + url
	}
	return m
}

// title says in one line what happened. One thing is named, several are counted.
func title(kind string, items []item, n int) string {
	first := ""
	if n > 0 {
		first = items[0].Text
	}
	switch {
	case kind == Test:
		return "A test: notifications of Oncegate arrive here"
	case kind == Digest && n == 0:
		return "Nothing waits for an operator"
	case kind == Digest:
		return ofAll(n)
	case kind == Resolved && n == 1:
		return "Over: " + first
	case kind == Resolved:
		return fmt.Sprintf("Over: %s, and %d more", first, n-1)
	case n == 1:
		return "An operator is needed: " + first
	}
	return fmt.Sprintf("An operator is needed: %s, and %d more", first, n-1)
}

func ofAll(n int) string {
	switch n {
	case 0:
		return "Nothing else waits for an operator"
	case 1:
		return "1 thing waits for an operator in all"
	}
	return fmt.Sprintf("%d things wait for an operator in all", n)
}
