package config

import (
	"time"

	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// Suppressions configures how suppressed addresses are stored.
type Suppressions struct {
	// HashOnly stores a hash instead of the address.
	HashOnly bool
}

// Suppress configures a target of kind suppress.
type Suppress struct {
	// Address computes the addresses that the event names.
	Address *expression.Program
	// Reason is the reason for every event. If it is empty, ReasonOf computes the reason.
	Reason   suppression.Reason
	ReasonOf *expression.Program
	// Target limits the suppression to messages of that target. Empty means all targets.
	Target string
	// Keep is how long addresses are suppressed. Zero means without end.
	Keep time.Duration
}

func (s *Suppressions) keys() []Key {
	return []Key{value("hash_only", &s.HashOnly, boolean, "`false`", "`true` keeps a hash of each address that is suppressed from now on, and not the address: lists cannot name it.")}
}

// keys declares the keys that only a target of kind suppress has.
func (s *Suppress) keys() []Key {
	return []Key{
		program("address", &s.Address, expression.Texts, "required", "An expression for one address or a list of them. An empty list suppresses nothing."),
		s.reasonKey("required", "`bounce`, `complaint`, `unsubscribe`, `manual`, or an expression that returns one of them."),
		value("for_target", &s.Target, words(checkedName), "every target", "The mail target whose messages are not sent to these addresses."),
		value("keep", &s.Keep, duration, "for ever", "How long the addresses are suppressed, from the receipt of the event."),
	}
}

// reasonKey declares the key reason: one of the reasons, or an expression that computes one.
func (s *Suppress) reasonKey(fallback, text string) Key {
	k := program("reason", &s.ReasonOf, expression.Texts, fallback, text)
	compute, computed := k.read, k.show
	k.read = func(r *reader, n *yamltree.Node) {
		if reason, err := suppression.ParseReason(n.Value()); err == nil {
			s.Reason = reason
			return
		}
		compute(r, n)
	}
	k.show = func() (any, bool) {
		if s.Reason != "" {
			return string(s.Reason), true
		}
		return computed()
	}
	return k
}

// suppress checks that the required keys of a suppress target are present.
func (r *reader) suppress(t *Target) {
	if t.node.Lacks("address") {
		t.node.FailKey("address is missing: an expression for the addresses that the event names, such as body.Email")
	}
	if t.node.Lacks("reason") {
		t.node.FailKey("reason is missing: bounce, complaint, unsubscribe, manual, or an expression that returns one of them")
	}
}

// checkSuppress checks that the mail targets that suppress targets name exist.
func (r *reader) checkSuppress(cfg *Config) {
	names := []string{}
	for _, t := range cfg.Targets {
		if t.Kind == KindMail {
			names = append(names, t.Name)
		}
	}
	for _, t := range cfg.Targets {
		if t.Kind != KindSuppress || t.Suppress.Target == "" {
			continue
		}
		known := false
		for _, name := range names {
			known = known || name == t.Suppress.Target
		}
		if !known {
			t.node.Below("for_target").Fail("there is no mail target %s; %sknown are %s", r.report.Quote(t.Suppress.Target),
				yamltree.DidYouMean(names, t.Suppress.Target), sortedList(names))
		}
	}
}
