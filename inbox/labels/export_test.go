package labels

import "context"

// MoveNext is what an indexer moves at a time, and [MoveBatches] how many batches that are.
var MoveNext = moveNext

// MoveBatches is how many batches one transaction moves.
const MoveBatches = moveBatches

// MoveWaiting is one turn of an indexer.
func (x *Indexer) MoveWaiting(ctx context.Context) error { return x.moveWaiting(ctx) }
