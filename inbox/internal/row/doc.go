// Package row holds what every store of the inbox needs to read and write rows: what a statement can be sent to
// ([Querier], [Batcher]), calls that commit together ([Group]), conditions that several statements share, and how values
// and texts are made storable. It knows tables by name and nothing of what they mean; the packages above it do.
package row
