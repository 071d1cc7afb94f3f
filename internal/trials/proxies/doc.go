// Package proxies tries the configurations of proxies that the directory deploy ships: it starts the proxy with the shipped file
// in front of two receivers and delivers through it.
//
// [Run] makes deliveries that proxies are known to break, one after the other (see [Probe]): a large body, an address that
// the signature covers, slow and large bodies, forged headers, paths of the private listener. Then senders that repeat deliveries
// without an acknowledgement deliver all the time, while Run reloads and restarts the proxy, drains and restarts each
// receiver, and kills one. [Check] compares the answers and the tables: everything acknowledged is recorded and applied once. How many
// deliveries had no 2xx at first is the second result.
//
// Only addresses, ports and paths of the shipped files are replaced. The proxies are the distribution's nginx, caddy and
// haproxy, so only ./scripts/proxies runs it. It needs Linux, because the receivers and the senders have addresses of their
// own in 127.0.0.0/8.
package proxies
