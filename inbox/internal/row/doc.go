// Package row contains the tools with which every store of the inbox reads and writes rows: the interfaces to which a
// statement can be sent ([Querier], [Batcher]), calls that commit together ([Group]), conditions that several
// statements share, and the conversion of values and texts for storage. It knows tables by name and nothing of their
// meaning; the packages that use it do.
package row
