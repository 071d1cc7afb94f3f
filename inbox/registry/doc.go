// Package registry writes the sources and routes of a configuration into the database when a process starts, and
// separates their names from their ids: an id never changes, and a former name is not given to a new row by mistake.
//
// Call [Register] at the start, or [Registration.Check] to see what it would refuse or change. [Read] reads the
// registered rows, for commands that only look.
//
// # How names change
//
// A source or route of the configuration is found by its name. [Register] renames a row whose name is among the
// previous names of the configuration, under a lock on both tables, and records each renaming. A recorded renaming is
// never applied again, and a former name leads to the row that had it, so that a process which starts with an earlier
// configuration neither inserts the old name again nor renames anything back. Keys are always made with the first name of a row; no two rows have the same one.
// [Register] refuses two changes that would make old events new: a new source of a provider, if a source of that
// provider has keys and is no longer configured, and another provider for the keys of a source. It also refuses
// another recipe of keys while there are keys of the old one.
//
// Lease tokens say to which targets their process sends ([inbox.RegisterRouting]). An effect
// keeps the token of its first attempt that may have happened, so that a process which has
// another target for the route does not send it there ([inbox.Effects.Elsewhere]).
package registry
