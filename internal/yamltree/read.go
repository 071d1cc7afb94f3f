package yamltree

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read reads a single value and turns it into a T; into stays as it is if that fails.
// It reports whether it succeeded.
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

// Value gives a reader for [Node.Fields] that calls [Read].
func Value[T any](into *T, parse func(string) (T, error)) func(*Node) {
	return func(n *Node) { Read(n, into, parse) }
}

// Text gives a reader of a single value as it is written.
func Text(into *string) func(*Node) {
	return Value(into, func(s string) (string, error) { return s, nil })
}

// Duration gives a reader of a time longer than zero.
func Duration(into *time.Duration) func(*Node) { return Value(into, PositiveDuration) }

// Size gives a reader of a number of bytes, more than zero.
func Size(into *int64) func(*Node) { return Value(into, PositiveSize) }

// Integer gives a reader of a whole number that is not below least.
func Integer(into *int, least int) func(*Node) {
	return Value(into, func(s string) (int, error) { return ParseInteger(s, least) })
}

// Bool gives a reader of true and false.
func Bool(into *bool) func(*Node) { return Value(into, ParseBool) }

// Word gives a reader of one of a few words.
func Word[T ~string](into *T, words ...T) func(*Node) { return Value(into, OneOf(words...)) }

// OneOf gives the parser of one of a few words, which names the others in its error.
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

// List gives a reader of a list of which each element is a single value.
func List[T any](into *[]T, parse func(string) (T, error)) func(*Node) {
	return func(n *Node) { *into = ReadList(n, parse) }
}

// ReadList reads a list of which each element is a single value. Elements that do not fit
// are left out.
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

// largestInteger is what a number in a document may be: it fits into an int anywhere.
const largestInteger = 1 << 30

// ParseInteger reads a decimal number from least to 2^30.
func ParseInteger(s string, least int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > largestInteger {
		return 0, fmt.Errorf("not a whole number from %d", least)
	}
	return n, nil
}

// ParseBool reads true and false, and no other word for them.
func ParseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("neither true nor false")
}
