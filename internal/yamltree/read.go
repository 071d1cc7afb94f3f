package yamltree

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read parses a single value into *into. If the node is not a single value or parse fails, it
// reports the problem, leaves *into unchanged and returns false.
func Read[T any](n *Node, into *T, parse func(string) (T, error)) bool {
	text, ok := n.Text()
	if !ok {
		return false
	}
	value, err := parse(text)
	if err != nil {
		n.Fail("%s: %v", n.report.Quote(text), err)
		return false
	}
	*into = value
	return true
}

// Value returns a reader for [Node.Fields] that calls [Read].
func Value[T any](into *T, parse func(string) (T, error)) func(*Node) {
	return func(n *Node) { Read(n, into, parse) }
}

// Text returns a reader that stores a single value's text.
func Text(into *string) func(*Node) {
	return Value(into, func(s string) (string, error) { return s, nil })
}

// Duration returns a reader of a duration longer than zero.
func Duration(into *time.Duration) func(*Node) { return Value(into, PositiveDuration) }

// Size returns a reader of a number of bytes greater than zero.
func Size(into *int64) func(*Node) { return Value(into, PositiveSize) }

// Integer returns a reader of an integer from least to 2^30.
func Integer(into *int, least int) func(*Node) {
	return Value(into, func(s string) (int, error) { return ParseInteger(s, least) })
}

// Bool returns a reader of true and false.
func Bool(into *bool) func(*Node) { return Value(into, ParseBool) }

// Word returns a reader that accepts one of the given words.
func Word[T ~string](into *T, words ...T) func(*Node) { return Value(into, OneOf(words...)) }

// OneOf returns a parser that accepts one of the given words. Its error lists them.
func OneOf[T ~string](words ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		if slices.Contains(words, T(s)) {
			return T(s), nil
		}
		names := make([]string, len(words))
		for i, word := range words {
			names[i] = string(word)
		}
		return "", fmt.Errorf("unknown; %sknown are %s", DidYouMean(names, s), strings.Join(names, ", "))
	}
}

// List returns a reader of a list of single values.
func List[T any](into *[]T, parse func(string) (T, error)) func(*Node) {
	return func(n *Node) { *into = ReadList(n, parse) }
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
