package yamltree

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Parse passes a single value's text to parse. It reports a problem and returns false if the node is
// not a single value or parse fails.
func (n *Node) Parse(parse func(string) error) bool {
	text, ok := n.Text()
	if !ok {
		return false
	}
	if err := parse(text); err != nil {
		n.Fail("%s: %v", n.report.Quote(text), err)
		return false
	}
	return true
}

// Read parses a single value into *into. If the node is not a single value or parse fails, it
// reports the problem, leaves *into unchanged and returns false.
func Read[T any](n *Node, into *T, parse func(string) (T, error)) bool {
	return n.Parse(func(text string) error {
		value, err := parse(text)
		if err == nil {
			*into = value
		}
		return err
	})
}

// Text returns a reader for [Node.Fields] that stores a single value's text.
func Text(into *string) func(*Node) {
	return func(n *Node) { n.Parse(func(text string) error { *into = text; return nil }) }
}

// OneOf returns an error that lists the known words, unless s is one of them.
func OneOf(s string, known ...string) error {
	if slices.Contains(known, s) {
		return nil
	}
	return fmt.Errorf("unknown; %sknown are %s", DidYouMean(known, s), strings.Join(known, ", "))
}

// ReadList reads a list of single values. It reports and omits the elements that parse rejects.
func ReadList[T any](n *Node, parse func(string) (T, error)) []T {
	var out []T
	for _, item := range n.Items() {
		var value T
		if Read(item, &value, parse) {
			out = append(out, value)
		}
	}
	return out
}

// largestInteger is the largest integer in a document. It fits into an int on every platform.
const largestInteger = 1 << 30

// ParseInteger reads a decimal number from least to 2^30.
func ParseInteger(s string, least int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > largestInteger {
		return 0, fmt.Errorf("not a whole number from %d", least)
	}
	return n, nil
}

// ParseBool accepts only the words true and false.
func ParseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("neither true nor false")
}
