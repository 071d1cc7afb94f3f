// Attack starts clients without a secret, which send slowly, hold connections open and forge deliveries. It measures
// how many good deliveries fail at the same time, and how slow they are.
//
// Run it with ./scripts/attack, which describes the attacks and the flags. It needs the machine for itself and ten
// minutes. The flag -binary makes it attack another binary, such as an older one that did not withstand.
//
// It prints a line for each attack: the number of connections that it made, the number of good deliveries that failed
// during it, their latency, and the ratio of that latency to the latency of a quiet time before. It exits with 1 if at
// least 1 % of the good deliveries failed during an attack, if their p99 was at least twice the p99 of the quiet time, or
// if the node still has connections, memory or files two minutes after the attacks.
package main
