// Package rollup counts what each source and route does, by minute and by hour, for the pages that people look at.
//
// A process makes one [Recorder]. [Recorder.Counters] returns the counts of a source or a route for one tenant, and the
// code that decides something adds to them: an addition to a number in memory, outside every transaction. Every ten
// seconds the recorder adds the counts to the tables stat_minute and stat_hour. [Reader] reads them: sums and rates,
// series for charts, and which sources are silent.
//
// # What the counts are worth
//
// A process that dies loses its counts since its last flush: ten seconds, as long as the database answers. Counts are
// therefore for people, and no decision depends on them. They are never counted twice: a flush is one statement that
// also writes its number, and a flush whose commit was not confirmed is sent again under the same number, which does
// nothing if it had been committed. A process whose flushes fail keeps its counts and tries again; after an outage of
// many hours it may join minutes to hours.
//
// A count belongs to the minute in which it happened, by the clock of the gate. An event is counted in the minute of its
// id.
package rollup
