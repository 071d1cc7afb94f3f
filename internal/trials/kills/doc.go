// Package kills ends workers of the real binary at chosen points of an effect
// and then compares ledgers that targets have kept with what the effects say.
//
// Two workers share the work. The targets decide the points: one holds a request
// before it is read, after it was read, in the middle of its answer, an SMTP
// server after the final dot, a function in the database before it returns; the
// [Campaign] then kills the worker whose request it is, or stops it for longer
// than its lease and lets it go on. Other targets reset connections, or answer 503
// after the work, and a proxy cuts the worker off from PostgreSQL at a COMMIT or while
// it records that a send begins. Nothing depends on being quick enough.
//
// [Check] then says of every effect whether its target, which is of one of three
// sorts, saw what was promised: one key and the same bytes where the target
// deduplicates; never more than once, and indeterminate where the end was not
// seen, where it cannot; exactly once inside the database.
package kills
