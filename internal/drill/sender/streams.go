package sender

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

const (
	// openStreams is how many streams get events at the same time, and streamLength how many numbers each has.
	openStreams  = 4
	streamLength = 12
)

// place is a place in an order.
type place struct {
	source int
	stream string
	number int
}

// streams hands out the places of streams whose numbers are shuffled.
type streams struct {
	prefix  string
	sources int

	mu   sync.Mutex
	made int
	open [][]place
}

// take returns the next place of a random open stream.
func (s *streams) take(random *rand.Rand) place {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.open) < openStreams {
		s.open = append(s.open, s.shuffled(random))
	}
	i := random.IntN(len(s.open))
	next := s.open[i][0]
	if s.open[i] = s.open[i][1:]; len(s.open[i]) == 0 {
		s.open = append(s.open[:i], s.open[i+1:]...)
	}
	return next
}

func (s *streams) shuffled(random *rand.Rand) []place {
	places := make([]place, streamLength)
	for i := range places {
		places[i] = place{source: s.made % s.sources, stream: fmt.Sprintf("%s_%d", s.prefix, s.made), number: i + 1}
	}
	s.made++
	random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	return places
}

// rest returns the places of all open streams and closes the streams.
func (s *streams) rest() []place {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []place
	for _, places := range s.open {
		all = append(all, places...)
	}
	s.open = nil
	return all
}
