package receiver

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Quota says how many new keys of operations, or verified deliveries of a webhook, are accepted in a
// time; they may all come at once. One beyond it is answered with 429. Repeated calls of an operation
// never count, and are always answered. The zero Quota is no limit.
type Quota struct {
	N   int
	Per time.Duration
}

func (q Quota) check() error {
	if q.N < 0 || q.Per < 0 || (q.N > 0) != (q.Per > 0) {
		return errors.New("a quota's N and Per must both be positive, or both 0")
	}
	return nil
}

// bucket makes the counter of the quota, which is full; owner says whose quota it is.
func (q Quota) bucket(owner string) *quota {
	if q.N <= 0 {
		return nil
	}
	return &quota{owner: owner, perSecond: float64(q.N) / q.Per.Seconds(), burst: float64(q.N), tokens: float64(q.N)}
}

// maxQuotas is how many quotas bound a request at most: the source's, the credential's, the
// tenant's and an agent session's.
const maxQuotas = 4

// quotas bound the same requests.
type quotas []*quota

// joinQuotas leaves out the nil quotas.
func joinQuotas(all ...*quota) quotas {
	return slices.DeleteFunc(all, func(q *quota) bool { return q == nil })
}

// take takes from every quota or from none. In the second case it returns false, how many seconds it
// takes until each of them has one, and whose quota takes the longest.
func (all quotas) take(now time.Time) (taken bool, after int, owner string) {
	var lacking [maxQuotas]bool
	for i, q := range all {
		next := q.take(now)
		if lacking[i] = next > 0; next > after {
			after, owner = next, q.owner
		}
	}
	if after == 0 {
		return true, 0, ""
	}
	for i, q := range all {
		if !lacking[i] {
			q.give()
		}
	}
	return false, after, owner
}

// quotaSet makes the quotas of one receiver. It takes over a quota that the receiver before it has with the same size, so that a
// reload does not refill the quota.
type quotaSet struct {
	before, made map[quotaKey]*quota
}

// quotaKey identifies a quota. source is empty for the quota of a tenant, which all sources share. counts is [countsKeys] or
// [countsDeliveries].
type quotaKey struct {
	source, owner, counts string
	size                  Quota
}

// The two things that quotas count.
const (
	countsKeys       = "new keys"
	countsDeliveries = "deliveries"
)

// newQuotaSet makes a set that continues the quotas of the receiver before, which may be nil.
func newQuotaSet(after *Receiver) *quotaSet {
	out := &quotaSet{made: map[quotaKey]*quota{}}
	if after != nil {
		out.before = after.quotas.made
	}
	return out
}

// bucket returns the counter of a quota, or nil if it is no limit.
func (s *quotaSet) bucket(source, owner, counts string, size Quota) *quota {
	key := quotaKey{source: source, owner: owner, counts: counts, size: size}
	q := s.before[key]
	if q == nil {
		q = size.bucket(owner)
	}
	if q != nil {
		s.made[key] = q
	}
	return q
}

// tenants makes the quotas of the tenants.
func (s *quotaSet) tenants(counts string, tenants map[string]Quota) (map[string]*quota, error) {
	var errs []error
	out := make(map[string]*quota, len(tenants))
	for _, name := range slices.Sorted(maps.Keys(tenants)) {
		if err := tenants[name].check(); err != nil {
			errs = append(errs, fmt.Errorf("receiver: tenant %q: %w", name, err))
			continue
		}
		out[name] = s.bucket("", "tenant "+name, counts, tenants[name])
	}
	return out, errors.Join(errs...)
}

// quota is a token bucket; nil never refuses.
type quota struct {
	owner string // whose new keys it counts, for a caller that is over it

	perSecond, burst float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

func newQuota(perSecond float64) *quota {
	if perSecond <= 0 {
		return nil
	}
	burst := max(1, perSecond)
	return &quota{perSecond: perSecond, burst: burst, tokens: burst}
}

// give returns a key that was not used.
func (q *quota) give() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tokens = min(q.burst, q.tokens+1)
}

// take takes one and returns 0, or it returns how many seconds it takes until there is one again.
func (q *quota) take(now time.Time) (after int) {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if passed := now.Sub(q.at).Seconds(); passed > 0 {
		if !q.at.IsZero() {
			q.tokens = min(q.burst, q.tokens+passed*q.perSecond)
		}
		q.at = now
	}
	if q.tokens < 1 {
		return max(1, int(math.Ceil((1-q.tokens)/q.perSecond)))
	}
	q.tokens--
	return 0
}
