// Package session makes connections to PostgreSQL whose sessions are what Oncegate needs, and
// stays sure of it while they are used.
//
// Call [OpenPool] for each [PoolRole], with one [Guard] for all pools of a process ([GuardedBy]).
//
// A pooler may stand between a process and its database. Three things go wrong there without a
// word: the pooler drops what a client asks for in its startup message, so that the session
// commits asynchronously or resolves names in another schema; the pooler gives the server's
// connection to somebody else between two transactions, so that settings, locks and prepared
// statements belong to whoever comes next; and a reload of the pooler changes the one behaviour
// into the other under running clients. Therefore:
//
//   - [Prepare] has a connection set what it needs by statement, after it stands, and read it
//     back. Only the user, the database and the application's name travel in the startup message.
//   - A [Guard] proves that sessions are not shared: two connections ask again and again for the
//     process that serves them and for a mark that each has set in its session. A connection that
//     keeps its server's connection sees its own process and its own mark, whatever else happens.
//     One that was idle in a pool is asked the same, instead of being pinged.
//
// A [History] keeps the process away from a former primary: it compares the position of each session's server with the highest that
// the process has seen, and chooses among the hosts of a url. [Standbys] lets a caller wait until the standbys have received a commit.
//
// When sessions are shared, the guard has every pool it guards refuse to hand out connections
// until they are not, with [ErrShared]. After a pooler in session mode is reloaded into transaction mode, up to five seconds
// may pass before all pools refuse to work; the server's connections keep their settings in that time, unless the pooler
// opens new ones.
package session
