package inbox

import (
	"slices"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// wakeUpFor returns what claims an effect whose turn it is, other than its own wake-up.
// nil leaves the effect to its own wake-up, or has it given one.
//
// A worker that continues a stream takes only an effect whose own wake-up has come
// and found it waiting for its turn. One whose wake-up is still in the queue keeps its
// place there, so that no stream passes what was received before.
//
// In mode latest the newest version runs on the first wake-up of any version of its key:
// the wake-ups of the versions that it supersedes have nothing else to do. If it were left
// to its own, which is the last in the queue, the next version would come before that, and
// under load nothing would ever run.
func (s *orderStream) wakeUpFor(r *orderRow, mode sequence.Mode) *orderAsk {
	chained := s.chain != nil && s.chain.claimed.IsZero()
	if chained && r.state == EffectHeld {
		return s.chain
	}
	if mode != sequence.Latest || !r.due && r.state != EffectHeld {
		return nil
	}
	for _, a := range s.asks {
		if older, named := s.named[a.effect]; named && a.claimed.IsZero() && older.number.Compare(r.number) < 0 {
			return a
		}
	}
	cameBefore := func(o orderRow) bool { return o.state == EffectHeld && o.number.Compare(r.number) < 0 }
	if chained && slices.ContainsFunc(s.rows, cameBefore) {
		return s.chain
	}
	return nil
}

// asksFor reports whether a wake-up of the effect asks.
func (s *orderStream) asksFor(effect ID) bool {
	return slices.ContainsFunc(s.asks, func(a *orderAsk) bool { return a.effect == effect })
}
