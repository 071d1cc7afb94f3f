package console

import (
	"time"

	"github.com/oncegate/oncegate/inbox/read"
)

// page is what a browser shows: a heading and components below it.
type page struct {
	Title string

	// Lead is the sentence below the heading.
	Lead string

	// Back is the link to the parent page.
	Back *link

	// Refresh is how often the script reloads the page while it is visible, in seconds. 0 is never. Without the
	// script the browser reloads the page itself, less often.
	Refresh int

	// Live is the query of the live list that reports new rows to the page. It is empty if there is none.
	Live string

	Blocks []block
}

// block is one component with its heading. One of its fields is set, or several if they belong together.
type block struct {
	// ID is the anchor of the block. It is empty if there is none.
	ID, Title, Text string

	Notice *notice
	Tiles  []tile
	Facts  []fact
	Filter *filter
	Table  *table
	Charts []chart
	Story  []moment
	Body   *body
	Code   string // one command or address to copy
	Forms  []form
	Links  []link

	// Panels are blocks side by side.
	Panels []block
}

// notice is a sentence that must be seen. Kind is good, bad, warn or info.
type notice struct{ Kind, Text, Detail string }

// link is an anchor.
type link struct {
	Text, Href string

	// Key is the second letter of the shortcut that starts with g, if there is one.
	Key string

	// Current means that the link leads to the current view.
	Current bool
}

// tile is one number with a label.
type tile struct {
	Count, Text, Href, Detail string
	Kind                      string // good, bad, warn or empty
	Oldest                    time.Time
	Places                    []cell
}

// fact is one name with its value or values.
type fact struct {
	Name   string
	Values []cell
}

// cell is one value. It is shown as text, and is a link if Href is set.
type cell struct {
	Text, Href string
	At         time.Time // shown instead of Text, unless it is zero
	State      string    // shown with its colour
	Marks      []mark    // several states with their numbers
	Code       bool      // in a fixed-width font
	Number     bool      // aligned to the right
	Detail     string    // a second, smaller line
}

// mark is a state, and its count if that is more than one.
type mark struct{ State, Count string }

// table is rows of cells. A cell below an empty heading has no label when the table is shown as cards.
type table struct {
	Heads []string
	Rows  [][]cell

	// Empty is shown if there are no rows.
	Empty string

	// Next is the link to the next page, empty on the last one. First is the link to the first page, empty there.
	Next, First string

	// Forward says that the list runs from the earliest to the latest, so that the first page has what came first.
	Forward bool

	// SearchedTo is how far the list was searched within its time. It is zero if everything was searched.
	SearchedTo time.Time

	// Away names the databases that did not answer.
	Away string
}

// filter is a form that narrows a list. It is sent by GET, so that the address contains the whole filter.
type filter struct {
	Action string
	Fields []field

	// Button is the label of the button. Empty is Filter.
	Button string

	// Hidden are parameters that keep their values.
	Hidden []field

	// Folded means that the form is folded at first. Chosen says above it what it selects.
	Folded bool
	Chosen []string

	// Set means that a field narrows the list, so that there is something to clear.
	Set bool
}

// field is one input of a form.
type field struct {
	Name, Label, Value, Hint string

	// Kind is the type of the input: text if it is empty, or search, number, datetime-local, select, checkbox,
	// textarea, hidden.
	Kind     string
	Options  []option
	Required bool

	// Suggestions are values that a text field offers. Others can be entered.
	Suggestions []string
	Pattern     string
	Checked     bool
}

// option is one choice of a select.
type option struct {
	Value, Text string
	Chosen      bool
}

// form changes something. It is sent by POST.
type form struct {
	ID, Title, Text, Action, Button string
	Fields                          []field

	// Choices are several buttons instead of one. The value of the clicked one is sent as ChoiceName.
	ChoiceName string
	Choices    []option

	// Danger means that the change cannot be undone.
	Danger bool

	// Closed means that the form is folded at first.
	Closed bool

	// Disabled is why the form cannot be sent. It is empty if it can.
	Disabled string
}

// moment is one step of a timeline.
type moment struct {
	At     time.Time
	Title  string
	Href   string
	State  string
	Detail string
	Facts  []fact
	Said   string // what a target or a sender said
	Level  int    // 0 for the event, 1 for an effect, 2 for an attempt
}

// body is a payload as text.
type body struct {
	// Views are the ways to show the payload, of which one is active.
	Views []link

	// Text is the text to show, already made visible.
	Text string

	// Note says what was left out or hidden.
	Note string

	// Download is the link to the bytes. It is empty if they cannot be downloaded.
	Download string

	Changes []change
}

// change is one path in which two payloads differ.
type change struct{ Path, Before, After string }

func text(s string) cell         { return cell{Text: s} }
func code(s string) cell         { return cell{Text: s, Code: true} }
func instant(at time.Time) cell  { return cell{At: at} }
func state(s string) cell        { return cell{State: s} }
func linked(s, href string) cell { return cell{Text: s, Href: href} }
func number[N ~int | ~int32 | ~int64](n N) cell {
	return cell{Text: groupDigits(int64(n)), Number: true}
}

// counted returns a cell for a number that is a lower bound if there may be more.
func counted(n int, more bool) cell { return cell{Text: read.CountOf(n, more), Number: true} }

// instantOf returns a cell for an instant that may be missing.
func instantOf(at *time.Time) cell {
	if at == nil {
		return cell{}
	}
	return cell{At: *at}
}

// facts leaves out the facts without a value.
func facts(all ...fact) []fact {
	var out []fact
	for _, f := range all {
		for _, v := range f.Values {
			if v.Text != "" || v.State != "" || len(v.Marks) > 0 || !v.At.IsZero() {
				out = append(out, f)
				break
			}
		}
	}
	return out
}

func is(name string, values ...cell) fact { return fact{Name: name, Values: values} }
