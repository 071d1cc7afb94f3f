package fetch

import (
	"errors"

	"github.com/oncegate/oncegate/providers/scheme"
)

// Stats contains counters since the start of the process.
type Stats struct {
	// Trusted counts attempts for configured or proven documents, and Unproven those for other
	// documents.
	Trusted, Unproven Ends

	// Budget counts requests that were deferred because the budget for unproven documents was
	// exhausted. Pause counts requests that needed a missing key and came too soon after the last
	// attempt. Crowd counts requests that were deferred because too many requests waited for one
	// attempt or too many attempts were running.
	Budget, Pause, Crowd uint64

	// Proven and Others are the numbers of documents in memory that have and have not verified a
	// request.
	Proven, Others int64
}

// Ends counts the results of attempts: Got for a document, Missing for the answer that there is
// none, Failed for everything else.
type Ends struct{ Got, Missing, Failed uint64 }

// Stats returns the counters.
func (f *Fetcher) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.stats
	for _, d := range f.documents {
		if d.proven {
			out.Proven++
		} else {
			out.Others++
		}
	}
	return out
}

func (s *Stats) count(d *document, err error) {
	ends := &s.Unproven
	if d.trusted() {
		ends = &s.Trusted
	}
	switch {
	case err == nil:
		ends.Got++
	case errors.Is(err, scheme.ErrNoKey):
		ends.Missing++
	default:
		ends.Failed++
	}
}
