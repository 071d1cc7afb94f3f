package yamltree

import (
	"slices"
	"strings"
)

// maxNearest is the most names that Nearest returns.
const maxNearest = 3

// Nearest returns the known names that the author may have meant by an unknown name, at most three:
// names that differ in a few characters, and names that contain the unknown name or are contained
// in it. Upper and lower case are the same. If several names are returned, they are equally close and in alphabetical order.
func Nearest(names []string, name string) []string {
	if name == "" || len(name) > 64 {
		return nil
	}
	asked := strings.ToLower(name)
	least := min(len(asked)/3, 2) // the most edits allowed; containing the name, or being contained in it, counts as that many
	var near []string
	best := least + 1
	for _, known := range slices.Sorted(slices.Values(names)) {
		lower := strings.ToLower(known)
		distance := edits(asked, lower)
		if len(asked) >= 3 && (strings.Contains(lower, asked) || len(lower) >= 4 && strings.Contains(asked, lower)) {
			distance = min(distance, least)
		}
		switch {
		case distance > best || distance > least:
		case distance < best:
			best, near = distance, []string{known}
		default:
			near = append(near, known)
		}
	}
	return near[:min(len(near), maxNearest)]
}

// DidYouMean returns the question "did you mean ...? " with the names from [Nearest] and a trailing
// space, or "" if no name is near.
func DidYouMean(names []string, name string) string {
	near := Nearest(names, name)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, " or ") + "? "
}

// edits returns the number of character edits (change, insert, delete, swap two neighbors) that
// turn a into b.
func edits(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
