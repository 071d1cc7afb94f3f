package config

import (
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// Suppressions configures how suppressed addresses are stored.
type Suppressions struct {
	// HashOnly stores a digest instead of the address.
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

func (r *reader) suppressions(cfg *Config, n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){"hash_only": yamltree.Bool(&cfg.Suppressions.HashOnly)})
}

// suppressKeys adds the readers of the keys that only a target of kind suppress has.
func (r *reader) suppressKeys(into *Suppress, keys map[string]func(*yamltree.Node)) {
	keys["address"] = r.program(&into.Address, expression.Texts)
	keys["reason"] = func(n *yamltree.Node) { r.suppressReason(into, n) }
	keys["for_target"] = yamltree.Value(&into.Target, checkedName)
	keys["keep"] = yamltree.Duration(&into.Keep)
}

// suppressReason reads one of the reasons, or an expression that computes one.
func (r *reader) suppressReason(into *Suppress, n *yamltree.Node) {
	if text, ok := n.Text(); ok {
		if reason, err := suppression.ParseReason(text); err == nil {
			into.Reason = reason
			return
		}
	}
	r.program(&into.ReasonOf, expression.Texts)(n)
}

// suppress checks that the required keys of a suppress target are present.
func (r *reader) suppress(t *Target) {
	if t.node.Lacks("address") {
		t.node.FailKey("address is missing: an expression for the addresses that the event names, such as body.Email")
	}
	if t.node.Lacks("reason") {
		t.node.FailKey("reason is missing: bounce, complaint, unsubscribe, manual, or an expression that gives one of them")
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
