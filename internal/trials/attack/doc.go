// Attack lets clients without a secret send slowly, hold connections open and forge deliveries, and measures what that
// costs good deliveries beside them.
//
// Run it with ./scripts/attack, which describes the attacks and the flags. It needs the machine for itself and ten
// minutes. -binary attacks another binary, such as an older one that did not withstand.
//
// It prints a line for each attack: how many connections it made, how many good deliveries failed beside it, their
// latency, and how that compares with a quiet time before. It exits with 1 if good deliveries had 1 % errors or twice
// their p99 beside an attack, or if something is left when the attacks are over.
package main
