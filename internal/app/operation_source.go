package app

import (
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
)

// declaredOperations returns the operations that a source declares, as the receiver uses them, or
// nil for a source that takes any operation.
func declaredOperations(s *config.Source) map[string]*receiver.Operation {
	if len(s.Operations) == 0 {
		return nil
	}
	out := make(map[string]*receiver.Operation, len(s.Operations))
	for _, o := range s.Operations {
		declared := &receiver.Operation{Versions: o.Versions, MinKey: o.MinKey, InFlight: o.InFlight, Description: o.Description, Key: o.Key, Volatile: o.Volatile, Exact: o.Exact, Keep: o.Keep}
		if o.Repeats != nil {
			repeats := receiver.Repeats(*o.Repeats)
			declared.Repeats = &repeats
		}
		if o.Schema != nil {
			declared.Check, declared.Schema = o.Schema.Check, o.Schema.JSON()
		}
		out[o.Name] = declared
	}
	return out
}

// comparisons returns how payloads of the declared operations of a source are compared.
func comparisons(s *config.Source) map[string]*inbox.Comparison {
	out := make(map[string]*inbox.Comparison, len(s.Operations))
	for _, o := range s.Operations {
		c := comparison(o.Compared)
		for _, former := range o.FormerlyCompared {
			c.Former = append(c.Former, comparison(former))
		}
		out[o.Name] = c
	}
	return out
}

func comparison(c *providers.Comparison) *inbox.Comparison {
	out := &inbox.Comparison{Canonical: c.Canonical, Differences: c.Differences}
	if c.ByMeaning() {
		out.Mark = inbox.MarkMeaning
	}
	return out
}
