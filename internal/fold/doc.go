// Package fold limits how many log lines are written. Of the lines of one kind it writes only the
// first few in every [Every] and counts the others. Every minute, and when the handler is closed,
// it writes one line per kind with the number of lines that it did not write. Lines dropped in the
// mode [Errors] are the only ones it does not count, because metrics count the same deliveries and
// effects.
//
// Lines are of one kind if they have the same message and level, and the same source, route,
// target, outcome and reason.
package fold
