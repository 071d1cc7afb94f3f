package receiver

import (
	"math"
	"sync"
	"time"
)

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

// newMinuteQuota is a quota of n a minute, all of which may come at once.
func newMinuteQuota(n int) *quota { return KeyQuota{Keys: n, Per: time.Minute}.bucket("the source") }

// give returns a key that was not used.
func (q *quota) give() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tokens = min(q.burst, q.tokens+1)
}

// next is how many seconds it takes until there is one again.
func (q *quota) next() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(1, int(math.Ceil((1-q.tokens)/q.perSecond)))
}

func (q *quota) take(now time.Time) bool {
	if q == nil {
		return true
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
		return false
	}
	q.tokens--
	return true
}
