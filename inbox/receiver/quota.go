package receiver

import (
	"sync"
	"time"
)

// quota is a token bucket; nil never refuses.
type quota struct {
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
