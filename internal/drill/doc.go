// Package drill tries Oncegate on the machine and the database of its operator. [Run] makes a schema, starts
// several processes of the binary behind proxies, delivers signed events with duplicates, conflicts and forgeries, makes
// faults meanwhile, and checks the invariants of package invariant at the end.
//
// Read run.go first. Its parts in order: [Options], the processes and what they run on (stage.go), the configuration
// (configuration.go), the faults (faults.go), the end (finish.go) and the [Report].
//
// A drill touches one schema, which it creates itself and whose name contains the run. It ends only processes that it
// started, by their id.
//
// The packages below are shared with the trials of the project: rig has processes, proxies and senders, ledger records
// what was sent and received, sender delivers, and invariant says what must hold.
package drill
