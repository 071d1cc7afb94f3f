// Package rig is shared by all trials. Start with [NewWorld], which makes a directory, builds the binary and starts a
// PostgreSQL. [World.Serve] starts a node and waits until it is ready, and [StartTarget] starts the target of the
// effects.
//
// The rest in order of use:
//
//   - Deliveries: [Deliver], [Post], [SendEach] for a list and [Pace] for a rate.
//   - Faults: [Process.Kill], [Process.Pause], and [StartProxy], which cuts a node off from PostgreSQL at a COMMIT.
//   - Waiting: [Until], [Pause].
//   - The end: [CountBy], [Unfinished], [Node.Metrics], [Violation], [List], and [ExplainFailure] if the campaign could
//     not be run to its end.
//   - Figures for the benchmark: [CPU], [PeakRSS], [DiscardedBytes].
//
// Each campaign, and not this package, checks its guarantees and decides what counts as broken.
//
// The signatures are computed from the senders' documentation and not with package providers, so that a mistake made
// there cannot hide here. The rig ends only processes that it started, by their id, and takes ports below 32768: a
// client that reconnects in a tight loop to a dead port of the ephemeral range can end up connected to itself and then
// keeps the server from binding it.
package rig
