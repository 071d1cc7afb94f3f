package refusal

// queueShare is what one peer has in the queue for one source.
type queueShare struct {
	source int32
	peer   string
}

type queueFill struct {
	rows  int
	bytes int64
}

// peerQueuePart is the part of the queue (one sixteenth) that a peer may fill when half of
// it is taken.
const peerQueuePart = 16

// reserve reserves room in the queue, and reports whether there is any. Any peer may use
// the first half. Of the other half each peer gets a sixteenth of the queue, so that a
// peer that floods while the database is slow does not keep the others out.
func (r *Store) reserve(refusal *Refusal, cost int64) bool {
	queued, rows := r.queued.Load()+cost, len(r.queue)+1
	if queued > r.cfg.QueueBytes || rows > cap(r.queue) {
		return false
	}
	share := queueShare{source: refusal.SourceID, peer: refusal.peer}
	fill := r.shares[share]
	fill.rows++
	fill.bytes += cost
	crowded := queued > r.cfg.QueueBytes/2 || rows > cap(r.queue)/2
	if crowded && (fill.rows > cap(r.queue)/peerQueuePart || fill.bytes > max(cost, r.cfg.QueueBytes/peerQueuePart)) {
		return false
	}
	r.shares[share] = fill
	r.queued.Add(cost)
	return true
}

// release returns the room that a written batch had reserved.
func (r *Store) release(batch []Refusal) {
	var cost int64
	r.mu.Lock()
	for i := range batch {
		share := queueShare{source: batch[i].SourceID, peer: batch[i].peer}
		fill := r.shares[share]
		fill.rows--
		fill.bytes -= batch[i].memorySize()
		if fill.rows == 0 {
			delete(r.shares, share)
		} else {
			r.shares[share] = fill
		}
		cost += batch[i].memorySize()
	}
	r.mu.Unlock()
	r.queued.Add(-cost)
}
