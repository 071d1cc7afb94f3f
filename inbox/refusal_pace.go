package inbox

import "time"

// bucket is a token bucket. The zero time fills it.
type bucket struct {
	perSecond, burst, tokens float64
	at                       time.Time
}

func (b *bucket) refill(now time.Time) {
	if b.at.IsZero() {
		b.tokens = b.burst
	} else if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.tokens = min(b.burst, b.tokens+passed*b.perSecond)
	}
	b.at = now
}

// refusalPace is how fast one source may fill the store.
type refusalPace struct {
	whole, bytes, samples, diagnoses bucket
}

func newRefusalPace(cfg *RefusalsConfig) *refusalPace {
	return &refusalPace{
		whole:     bucket{perSecond: cfg.WholePerSecond, burst: max(1, 5*cfg.WholePerSecond)},
		bytes:     bucket{perSecond: cfg.BytesPerSecond, burst: 4 * cfg.BytesPerSecond},
		samples:   bucket{perSecond: cfg.SamplesPerSecond, burst: max(1, 10*cfg.SamplesPerSecond)},
		diagnoses: bucket{perSecond: cfg.DiagnosesPerSecond, burst: 5 * cfg.DiagnosesPerSecond},
	}
}

func (p *refusalPace) take(r *Refusal, now time.Time) bool {
	if !r.Whole {
		p.samples.refill(now)
		if p.samples.tokens < 1 {
			return false
		}
		p.samples.tokens--
		return true
	}
	p.whole.refill(now)
	p.bytes.refill(now)
	// A body larger than the whole burst may pass a full bucket: it is bounded by
	// the source's body limit and by the queue.
	size := min(float64(len(r.Body)), p.bytes.burst)
	if p.whole.tokens < 1 || p.bytes.tokens < size {
		return false
	}
	p.whole.tokens--
	p.bytes.tokens -= size
	return true
}

// diagnose takes a diagnosis from the source's share and from everybody's.
func (p *refusalPace) diagnose(all *bucket, now time.Time) bool {
	p.diagnoses.refill(now)
	all.refill(now)
	if p.diagnoses.tokens < 1 || all.tokens < 1 {
		return false
	}
	p.diagnoses.tokens--
	all.tokens--
	return true
}
