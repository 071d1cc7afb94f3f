package fetch

import (
	"errors"

	"github.com/oncegate/oncegate/providers/scheme"
)

// Stats counts since the start of the process.
type Stats struct {
	// Trusted are attempts for documents that the configuration names or that have
	// verified something, and Unproven those for others.
	Trusted, Unproven Ends

	// Budget are requests that were put off since their source's budget for documents
	// that have verified nothing was used up; Pause those that a key was missing for and
	// that came too soon after the last attempt; Crowd those that too many others waited
	// before.
	Budget, Pause, Crowd uint64

	// Proven and Others are how many documents are in memory that have verified
	// something, and that have not.
	Proven, Others int64
}

// Ends says how attempts ended: with a document, with the answer that there is none, or
// in any other way.
type Ends struct{ Got, Missing, Failed uint64 }

// Stats gives the counters.
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
