package config

import (
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// Suppressions says how suppressed addresses are kept.
type Suppressions struct {
	// HashOnly keeps the digest of an address and not the address.
	HashOnly bool
}

// Suppress is what a target of kind suppress does with an event.
type Suppress struct {
	// Address gives the addresses that the event names.
	Address *expression.Program
	// Reason is why, for every event; if it is empty, ReasonOf gives it.
	Reason   suppression.Reason
	ReasonOf *expression.Program
	// Target limits the suppression to messages of that target; empty is every target.
	Target string
	// Keep is how long addresses are suppressed; 0 is for ever.
	Keep time.Duration
}

func (r *reader) suppressions(cfg *Config, n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){"hash_only": yamltree.Bool(&cfg.Suppressions.HashOnly)})
}

// suppressKeys are the readers of the keys that only a target of kind suppress has.
func (r *reader) suppressKeys(into *Suppress, keys map[string]func(*yamltree.Node)) {
	keys["address"] = r.program(&into.Address, expression.Texts)
	keys["reason"] = func(n *yamltree.Node) { r.suppressReason(into, n) }
	keys["for_target"] = yamltree.Value(&into.Target, checkedName)
	keys["keep"] = yamltree.Duration(&into.Keep)
}

// suppressReason reads one of the reasons, or an expression that gives one.
func (r *reader) suppressReason(into *Suppress, n *yamltree.Node) {
	if text, ok := n.Text(); ok {
		if reason, err := suppression.ParseReason(text); err == nil {
			into.Reason = reason
			return
		}
	}
	r.program(&into.ReasonOf, expression.Texts)(n)
}

// suppress looks at what the keys of the target say together.
func (r *reader) suppress(t *Target) {
	if t.node.Lacks("address") {
		t.node.FailKey("address is missing: an expression for the addresses that the event names, such as body.Email")
	}
	if t.node.Lacks("reason") {
		t.node.FailKey("reason is missing: bounce, complaint, unsubscribe, manual, or an expression that gives one of them")
	}
}

// checkSuppress looks for the mail targets that targets of kind suppress name.
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

func (s *Suppress) append(to yaml.MapSlice) yaml.MapSlice {
	to = append(to, item("address", s.Address.String()))
	if s.Reason != "" {
		to = append(to, item("reason", string(s.Reason)))
	} else {
		to = append(to, item("reason", s.ReasonOf.String()))
	}
	if s.Target != "" {
		to = append(to, item("for_target", s.Target))
	}
	return duration(to, "keep", s.Keep)
}
