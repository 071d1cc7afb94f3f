// Package fold keeps a log from drowning a disk. Of the lines of one kind it writes the
// first ones in every few seconds and counts the others; each minute, and at the end, one
// line for each kind tells how many that were. No line is left out uncounted.
//
// Lines are of one kind if they have the same message and level, and the same source,
// route, target, outcome and reason.
package fold
