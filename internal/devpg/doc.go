// Package devpg runs private PostgreSQL clusters for development, tests and measurements.
//
// It serves two kinds of caller. A program that needs a cluster of its own, to kill it or to measure it, calls
// [Start] and holds a [Server]: the postmaster is a child that the caller reaps, so a killed one is seen to be gone
// at once. The scripts need a cluster that outlives the command that started it and ends with the work it was
// started for: they call [Shared.Start], which leaves a keeper process behind.
//
// Every cluster lives in a directory of its own with a data directory, a unix socket, a log and a random password.
// It listens on 127.0.0.1 only, on a free port below 32768: a client that reconnects in a tight loop to a dead port
// of the ephemeral range can end up connected to itself and then keeps PostgreSQL from binding it. No other cluster
// is ever read, stopped or changed. PostgreSQL refuses to run as root, so under root it runs as an existing
// unprivileged account.
package devpg
