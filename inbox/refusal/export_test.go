package refusal

// Peers counts the peers that the store remembers the shares of.
func (r *Store) Peers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.shares)
	for _, pace := range r.paces {
		n += len(pace.lanes)
	}
	return n
}
