// Package session opens connections to PostgreSQL with the session settings that Oncegate needs,
// and checks while they are used that the sessions still have them.
//
// Call [OpenPool] for each [PoolRole], with one [Guard] for all pools of a process ([GuardedBy]).
//
// A connection pooler between a process and its database can do three things wrong without an
// error. It can drop the settings in a client's startup message, so that the session commits
// asynchronously or resolves names in another schema. It can pass the server's connection to
// another client between two transactions, so that the other client gets the settings, locks
// and prepared statements. And a reload of the pooler can switch running clients from session mode to
// transaction mode. Therefore:
//
//   - [Prepare] makes each new connection set what it needs by statement and read it
//     back. The startup message contains no settings but the application's name.
//   - A [Guard] proves that sessions are not shared: two connections repeatedly read the id of
//     the process that serves them and a mark that each has set in its session. A connection that
//     keeps its server's connection always sees its own process and mark.
//     A connection that was idle in a pool is checked in the same way, instead of with a ping.
//
// A [History] keeps the process away from a former primary: it compares the position of each session's server with the highest that
// the process has seen, and chooses among the hosts of a url. [Standbys] lets a caller wait until the standbys have received a commit.
//
// While sessions are shared, no guarded pool hands out connections: they return [ErrShared]. After a pooler in session mode is
// reloaded into transaction mode, up to five seconds may pass before all pools refuse to work. In that time the server's
// connections keep their settings, unless the pooler opens new ones.
package session
