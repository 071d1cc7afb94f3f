// Bench measures Oncegate against the least that its work could cost.
//
// Run it with ./scripts/bench, which describes the benchmarks (receive, seal, effects, replay, prune and order) and
// their flags; --quick takes a minute. It needs the machine for itself. It builds the real binary and starts a
// PostgreSQL of its own, with durable defaults.
//
// It prints its progress to stderr and a table to stdout, or JSON with --output json. The table has a row for each
// subject, and below it the ratios with their targets, met or missed. What the disk takes to sync while it is idle is
// printed with every result.
//
// Everything runs on this machine: PostgreSQL, the processes that are compared, and what loads them. Each figure is
// measured in rounds, between the others, and ratios are made within a round, so that whatever else the machine does
// affects all figures alike.
package main
