// Package registry writes the sources and routes of a configuration into the database when a process starts, and keeps
// their names and ids apart: an id never changes, and a name is never born twice.
//
// Call [Register] at the start, or [Registration.Check] to learn what it would refuse or change. [Read] reads what is
// registered, for commands that only look.
//
// # How names change
//
// A source or route of the configuration is found by its name. [Register] renames a row
// whose name is among the previous names of the configuration, under a lock on both
// tables, and writes down each renaming. One that was applied is never applied again, and
// a name of the past leads to the row that had it, so that a process which starts with an
// earlier configuration neither makes the old name anew nor renames anything back. An
// earlier version of the program is stopped from it by a trigger. Keys are made with
// the first name of a row for ever; no two rows have the same one. [Register] refuses
// what would make old events new: a new source beside one of its provider that holds keys
// and is gone from the configuration, and another provider for the keys of a source. It
// refuses another recipe of keys, too, while there are keys of the old one.
//
// Lease tokens say to which targets their process sends ([inbox.RegisterRouting]). An effect
// keeps the token of its first attempt that may have happened, so that a process which has
// another target for the route does not send it there ([inbox.Effects.Elsewhere]).
package registry
