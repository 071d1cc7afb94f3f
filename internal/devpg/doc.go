// Package devpg runs private PostgreSQL clusters for development, tests and measurements.
//
// It serves two kinds of caller. A program that needs a separate cluster, to kill or measure it,
// calls [Start] and gets a [Server]. The postmaster is a child process that the caller reaps, so
// the caller notices at once when it has been killed. The scripts need a cluster that outlives the
// command that started it and stops when the work that it was started for ends. They call
// [Shared.Start], which leaves a keeper process running.
//
// Every cluster has a separate directory with a data directory, a unix socket, a log and a random
// password. It listens only on 127.0.0.1, on a free port below 32768: a client that reconnects in a
// tight loop to an unused port of the ephemeral range can connect to itself, which then prevents
// PostgreSQL from binding the port. The package never reads, stops or changes other clusters.
// PostgreSQL refuses to run as root, so under root it runs as an existing unprivileged account.
package devpg
