package jobs

import "github.com/sony/gobreaker/v2"

// BreakerState is what the breaker of a target, or of the server of fetches, lets through. It is a metric's label: never change.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // attempts are made
	BreakerHalfOpen BreakerState = "half_open" // one attempt is made, to see
	BreakerOpen     BreakerState = "open"      // no attempt is made
)

// BreakerStates are all of them.
func BreakerStates() []BreakerState {
	return []BreakerState{BreakerClosed, BreakerHalfOpen, BreakerOpen}
}

// Breakers returns the state of each target's breaker in this process. A target whose breaker is
// off has no entry.
func (c *Client) Breakers() map[string]BreakerState { return breakerStates(c.limits) }

// FetchBreakers returns the state of the breaker of each server that fetches ask, in this process.
func (c *Client) FetchBreakers() map[string]BreakerState { return breakerStates(c.fetchLimits) }

func breakerStates(limits map[string]*limiter) map[string]BreakerState {
	out := make(map[string]BreakerState, len(limits))
	for target, l := range limits {
		if l.breaker == nil {
			continue
		}
		switch l.breaker.State() {
		case gobreaker.StateOpen:
			out[target] = BreakerOpen
		case gobreaker.StateHalfOpen:
			out[target] = BreakerHalfOpen
		default:
			out[target] = BreakerClosed
		}
	}
	return out
}
