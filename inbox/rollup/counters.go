package rollup

import (
	"sync/atomic"
	"time"
)

// ring is how many minutes are counted separately in memory: a power of two, and longer than the longest time between a
// count and its flush.
const ring = 8

// place is what counts are kept for separately. Route 0 is the source itself.
type place struct {
	source, route int32
	tenant        string
}

// Counters are the counts of one source or route for one tenant, in memory. They may be used concurrently. A nil *Counters
// counts nothing.
type Counters struct {
	place

	minutes [ring][kinds]atomic.Int64 // by the minute since 1970, modulo ring

	// The times of the first and the last event since the last flush, in microseconds since 1970; 0 is none.
	first, last atomic.Int64
}

// minuteOf is the minute of an instant, counted since 1970.
func minuteOf(at time.Time) int64 { return at.Unix() / 60 }

// Add counts n of a kind that happened at an instant.
func (c *Counters) Add(at time.Time, kind Kind, n int) {
	if c == nil || n <= 0 {
		return
	}
	c.minutes[minuteOf(at)&(ring-1)][kind].Add(int64(n))
}

// AddEvents counts events that were recorded at an instant.
func (c *Counters) AddEvents(at time.Time, n int) {
	if c == nil || n <= 0 {
		return
	}
	c.Add(at, Recorded, n)
	micros := at.UnixMicro()
	for known := c.last.Load(); known < micros && !c.last.CompareAndSwap(known, micros); known = c.last.Load() {
	}
	for known := c.first.Load(); (known == 0 || known > micros) && !c.first.CompareAndSwap(known, micros); known = c.first.Load() {
	}
}

// AddLatency counts an acknowledgement of the source, or an attempt of the route, that took so long.
func (c *Counters) AddLatency(at time.Time, took time.Duration) { c.Add(at, latencyOf(took), 1) }

// take moves the counts since the last flush into counts and times.
func (c *Counters) take(now time.Time, p *pending) {
	newest := minuteOf(now) + 1 // the clock may have been set back a little
	for i := range c.minutes {
		minute := newest - (newest-int64(i))&(ring-1)
		for kind := range c.minutes[i] {
			if n := c.minutes[i][kind].Load(); n != 0 {
				p.counts[cell{c.place, Kind(kind), minute * 60}] += c.minutes[i][kind].Swap(0)
			}
		}
	}
	if last := c.last.Swap(0); last != 0 {
		first := c.first.Swap(0)
		if first == 0 { // an event is between its two times
			first = last
		}
		p.addTimes(sourceTenant{c.source, c.tenant}, time.UnixMicro(first), time.UnixMicro(last))
	}
}
