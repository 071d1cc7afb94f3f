package rollup

import (
	"encoding/json"
	"math"
	"time"
)

// latencies is how many counts a [Latency] has.
const latencies = 16

// latencyBounds are the upper ends of the counts but for the last, which has none. Stored in the names of kinds: never
// change one.
var latencyBounds = [latencies - 1]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
}

// latencyOf returns the kind that counts what took that long.
func latencyOf(took time.Duration) Kind {
	for i, bound := range latencyBounds {
		if took <= bound {
			return firstLatency + Kind(i)
		}
	}
	return firstLatency + latencies - 1
}

// Latency counts acknowledgements or attempts by how long they took: up to 1, 2, 5, 10, 20, 50, 100, 200 and 500 ms, 1, 2, 5, 10,
// 30 and 60 s, and longer.
type Latency [latencies]int64

// Count is how many there were.
func (l *Latency) Count() (n int64) {
	for _, c := range l {
		n += c
	}
	return n
}

// Quantile estimates the time within which the share q of them ended, such as 0.95. It is exact at the bounds of the counts, and
// interpolates evenly between them. It is 0 if there were none, and a minute beyond the last bound.
func (l *Latency) Quantile(q float64) time.Duration {
	total := l.Count()
	if total == 0 {
		return 0
	}
	rank, below := math.Min(math.Max(q, 0), 1)*float64(total), 0.0
	low := time.Duration(0)
	for i, high := range latencyBounds {
		n := float64(l[i])
		if n > 0 && below+n >= rank {
			return low + time.Duration(float64(high-low)*(rank-below)/n)
		}
		below, low = below+n, high
	}
	return low
}

// MarshalJSON returns their number and three quantiles in seconds.
func (l Latency) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count int64   `json:"count"`
		P50   float64 `json:"p50_seconds"`
		P95   float64 `json:"p95_seconds"`
		P99   float64 `json:"p99_seconds"`
	}{l.Count(), l.Quantile(0.5).Seconds(), l.Quantile(0.95).Seconds(), l.Quantile(0.99).Seconds()})
}
