// Package rig has what a drill or a trial is built of: child processes of Oncegate, a proxy that cuts them off from
// PostgreSQL, senders, targets and waiting. It looks at Oncegate from outside and imports none of its packages.
//
// A [Stage] starts the nodes, the targets and the proxies of one run, and ends them. Below it, [Host.Serve] starts a node
// and waits until it is ready, and [StartTarget] and [StartServer] start what the effects are sent to. [ServeMail] is a
// mail server. The rest in order of use:
//
//   - Deliveries: [Deliver], [Post], [SendEach] for a list and [Pace] for a rate.
//   - Faults: [Process.Kill], [Process.Pause], and [StartProxy], which cuts a node off from PostgreSQL at a COMMIT.
//   - Waiting: [Until], [Pause], [Rest].
//   - The end: [CountBy], [Rest], [Node.Metrics], [Violation], [List].
//
// The signatures are computed from the senders' documentation and not with package providers, so that a mistake made
// there cannot hide here. The rig ends only processes that it started, by their id, and takes ports below 32768: a
// client that reconnects in a tight loop to a dead port of the ephemeral range can end up connected to itself and then
// keeps the server from binding it.
package rig
