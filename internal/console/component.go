package console

import (
	"time"
)

// page is what a browser shows: a heading and components below it.
type page struct {
	Title string

	// Lead is the sentence below the heading.
	Lead string

	// Back leads to where the page belongs.
	Back *link

	// Refresh is how often the script asks for the page again while it is visible, in seconds; 0 does not. Without
	// the script the browser does it itself, more slowly.
	Refresh int

	// Live is the query of the live list that the page is told of new rows by; empty has none.
	Live string

	Blocks []block
}

// block is one component with its heading. One of its fields is set, and those beside it if they belong together.
type block struct {
	// ID is the anchor of the block; empty has none.
	ID, Title, Text string

	Notice *notice
	Tiles  []tile
	Facts  []fact
	Filter *filter
	Table  *table
	Charts []chart
	Story  []moment
	Body   *body
	Code   string // one command or address, to be copied
	Forms  []form
	Links  []link
}

// notice is a sentence that must be seen. Kind is good, bad, warn or info.
type notice struct{ Kind, Text, Detail string }

// link is an anchor.
type link struct {
	Text, Href string

	// Key is the second letter of the shortcut after g, if there is one.
	Key string

	// Current: it leads to what is shown.
	Current bool
}

// tile is one number with what it counts.
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

// cell is one value. It is shown as text, and leads somewhere if Href is set.
type cell struct {
	Text, Href string
	At         time.Time // shown instead of Text, unless it is zero
	State      string    // shown with its colour
	Marks      []mark    // several states with their numbers
	Code       bool      // in a fixed width
	Number     bool      // to the right
	Detail     string    // a second, smaller line
}

// mark is a state, and how often if more than once.
type mark struct{ State, Count string }

// table is rows of cells. A cell below an empty heading has no label where the table becomes cards.
type table struct {
	Heads []string
	Rows  [][]cell

	// Empty is what stands there without rows.
	Empty string

	// Next leads to the next page; empty on the last one. First leads to the first page, from the others.
	Next, First string

	// Forward says that the first page has what came first.
	Forward bool

	// SearchedTo is how far the list was searched within its time; zero is all the way.
	SearchedTo time.Time
}

// filter is a form that narrows a list. It is sent by GET, so that the address holds all of it.
type filter struct {
	Action string
	Fields []field

	// Button is what the button says; empty is Filter.
	Button string

	// Hidden are parameters that stay as they are.
	Hidden []field

	// Set: some field narrows, so that there is something to clear.
	Set bool
}

// field is one input of a form.
type field struct {
	Name, Label, Value, Hint string

	// Kind is the type of the input: text if it is empty, or search, number, datetime-local, select, checkbox, textarea, hidden.
	Kind     string
	Options  []option
	Required bool
	Pattern  string
	Checked  bool
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

	// Choices are several buttons in the place of one; what is chosen is sent as ChoiceName.
	ChoiceName string
	Choices    []option

	// Danger: what it does cannot be undone.
	Danger bool

	// Closed: the form is folded until somebody opens it.
	Closed bool

	// Disabled is why the form cannot be sent; empty if it can.
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
	// Views are the ways of looking at it, of which one is shown.
	Views []link

	// Lines is the text that is shown, already made visible.
	Text string

	// Note says what is left out or hidden.
	Note string

	// Download leads to the bytes; empty if they are not given.
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

// instantOf is an instant that may not be there.
func instantOf(at *time.Time) cell {
	if at == nil {
		return cell{}
	}
	return cell{At: *at}
}

// facts leaves out those without a value.
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
