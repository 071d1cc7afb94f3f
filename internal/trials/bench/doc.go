// Bench measures Oncegate against the least that its work could cost.
//
// Run it with ./scripts/bench, which describes the benchmarks (receive, seal, effects, replay, prune, order and
// overhead) and their flags; --quick takes a minute. It needs the machine for itself. It builds the real binary and
// starts its own PostgreSQL, with the durability that PostgreSQL has by default.
//
// It prints its progress to stderr and a table to stdout, or JSON with --output json. The table has a row for each
// subject, and below it the ratios with their targets, met or missed. With every result it prints how long the idle
// disk takes to sync.
//
// Everything runs on this machine: PostgreSQL, the processes that are compared, and the generators of their load. The
// measurements of a round follow one another closely, and each ratio is made from measurements of one round, so that
// other load on the machine affects both sides of a ratio alike.
package main
