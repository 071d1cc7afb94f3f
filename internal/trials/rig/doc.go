// Package rig is what the campaigns and the benchmark share: building and running
// the real binary and its commands, a PostgreSQL to run them on, signing deliveries,
// and reading what processes cost.
//
// Its signatures are computed from the senders' documentation and not with
// package providers, so that a mistake made there cannot hide here. It ends only
// processes that it started, by their id, and takes ports below 32768: a client
// that reconnects in a tight loop to a dead port of the ephemeral range can end
// up connected to itself and then keeps the server from binding it.
package rig
