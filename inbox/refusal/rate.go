package refusal

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

// holds reports whether the bucket can pay for n. A full bucket may pay for a request that
// is larger than the bucket.
func (b *bucket) holds(n float64, now time.Time) bool {
	b.refill(now)
	return b.tokens >= min(n, b.burst)
}

func (b *bucket) spend(n float64) { b.tokens -= min(n, b.burst) }

const (
	// reservedPart of a rate is for peers that have hardly used it.
	reservedPart = 1.0 / 4
	// lanePart of a rate is what one peer may take of the reserve for one cause. It takes
	// sixteen of them to use the reserve up.
	lanePart = 1.0 / 64
)

// rate limits one resource. All peers take from the common part until it is used up; then
// each lane may still take its share of the reserve.
type rate struct {
	common, reserve bucket
	lane            bucket // every lane has a copy of it
}

func newRate(perSecond, burst, least float64) rate {
	part := func(of, least float64) bucket {
		return bucket{perSecond: of * perSecond, burst: max(least, of*burst)}
	}
	return rate{common: part(1-reservedPart, least), reserve: part(reservedPart, least), lane: part(lanePart, least)}
}

// sourceRates limit how fast one source may fill the store.
type sourceRates struct {
	whole, bytes, samples, diagnoses rate

	lanes map[laneKey]*laneShares
	rest  *laneShares // the shares of lanes for which there was no room
	swept time.Time
}

// laneKey is one peer and one cause: refusals with the same key share a lane.
type laneKey struct{ peer, cause string }

// laneShares is the rest of one lane's shares.
type laneShares struct {
	whole, bytes, samples, diagnoses bucket
	usedAt                           time.Time
}

const (
	maxLanes   = 1024            // of one source
	laneIdle   = 5 * time.Minute // after which the shares of a lane are full again, nearly
	sweepLanes = time.Second     // the pause between two searches for idle lanes
)

func newRefusalPace(cfg *Config) *sourceRates {
	return &sourceRates{
		whole:     newRate(cfg.WholePerSecond, 5*cfg.WholePerSecond, 1),
		bytes:     newRate(cfg.BytesPerSecond, 4*cfg.BytesPerSecond, 0),
		samples:   newRate(cfg.SamplesPerSecond, 10*cfg.SamplesPerSecond, 1),
		diagnoses: newDiagnosisRate(cfg.DiagnosesPerSecond),
		lanes:     make(map[laneKey]*laneShares),
	}
}

func newDiagnosisRate(perSecond float64) rate {
	if perSecond == 0 {
		return rate{} // pays for nothing, so that nothing is diagnosed
	}
	return newRate(perSecond, 5*perSecond, 1)
}

func (p *sourceRates) take(r *Refusal, now time.Time) bool {
	if !r.Whole {
		return p.pay(r, now, []price{{&p.samples, 1, func(l *laneShares) *bucket { return &l.samples }}})
	}
	return p.pay(r, now, []price{
		{&p.whole, 1, func(l *laneShares) *bucket { return &l.whole }},
		{&p.bytes, float64(len(r.Body) + len(r.Headers)), func(l *laneShares) *bucket { return &l.bytes }},
	})
}

// price is the amount to take from a rate, and the lane's share of that rate.
type price struct {
	of   *rate
	n    float64
	lane func(l *laneShares) *bucket
}

// pay takes all prices or none, from the common part or from the reserve.
func (p *sourceRates) pay(r *Refusal, now time.Time, prices []price) bool {
	if spendAll(now, prices, func(c price) []*bucket { return []*bucket{&c.of.common} }) {
		return true
	}
	lane := p.laneOf(laneKey{peer: r.peer, cause: r.Cause}, now)
	return spendAll(now, prices, func(c price) []*bucket { return []*bucket{&c.of.reserve, c.lane(lane)} })
}

func spendAll(now time.Time, prices []price, from func(c price) []*bucket) bool {
	for _, c := range prices {
		for _, b := range from(c) {
			if !b.holds(c.n, now) {
				return false
			}
		}
	}
	for _, c := range prices {
		for _, b := range from(c) {
			b.spend(c.n)
		}
	}
	return true
}

// laneOf finds the lane, or makes it. If there are too many, it forgets those that were not
// used for a while. If that makes no room, the lane is shared with the rest.
func (p *sourceRates) laneOf(of laneKey, now time.Time) *laneShares {
	lane := p.lanes[of]
	if lane == nil && len(p.lanes) >= maxLanes && now.Sub(p.swept) >= sweepLanes {
		p.swept = now
		for other, fill := range p.lanes {
			if now.Sub(fill.usedAt) >= laneIdle {
				delete(p.lanes, other)
			}
		}
	}
	switch {
	case lane != nil:
	case len(p.lanes) < maxLanes:
		lane = p.newLane()
		p.lanes[of] = lane
	default:
		if p.rest == nil {
			p.rest = p.newLane()
		}
		lane = p.rest
	}
	lane.usedAt = now
	return lane
}

func (p *sourceRates) newLane() *laneShares {
	return &laneShares{whole: p.whole.lane, bytes: p.bytes.lane, samples: p.samples.lane, diagnoses: p.diagnoses.lane}
}

// diagnose takes a diagnosis from the source's share and from the share of all sources.
func (p *sourceRates) diagnose(r *Refusal, all *rate, now time.Time) bool {
	if p.diagnoses.lane.burst == 0 {
		return false
	}
	if p.diagnoses.common.holds(1, now) && all.common.holds(1, now) {
		p.diagnoses.common.spend(1)
		all.common.spend(1)
		return true
	}
	lane := &p.laneOf(laneKey{peer: r.peer, cause: r.Cause}, now).diagnoses
	if !p.diagnoses.reserve.holds(1, now) || !all.reserve.holds(1, now) || !lane.holds(1, now) {
		return false
	}
	p.diagnoses.reserve.spend(1)
	all.reserve.spend(1)
	lane.spend(1)
	return true
}
