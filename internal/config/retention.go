package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// Class is a retention class.
type Class struct {
	Name string

	// Body, Effects, Refusals and Audit are how long those are kept.
	Body, Effects, Refusals, Audit time.Duration

	// Tombstone is how long keys refuse duplicates, as it is configured; 0 is as long
	// as anything else of an event is kept, and as long as its provider asks for.
	Tombstone time.Duration
}

// unknownWindow is what a window of a provider counts as if it is not known
// well, or if none is known: most that publish theirs stay below it.
const unknownWindow = 30 * day

// windowFactor is how many times a provider's longest window keys live at least:
// clocks, outages on both sides and a person who comes back to it.
const windowFactor = 3

// classDefaults are the horizons of a class that says nothing else.
func classDefaults(name string) *Class {
	return &Class{Name: name, Body: 30 * day, Effects: 30 * day, Refusals: 30 * day, Audit: 365 * day}
}

// builtInClasses are there in every configuration, which may change them.
func builtInClasses() []*Class {
	payments, ephemeral := classDefaults("payments"), classDefaults("ephemeral")
	payments.Body, payments.Effects = 90*day, 90*day
	ephemeral.Body, ephemeral.Effects, ephemeral.Refusals = 7*day, 7*day, 7*day
	return []*Class{classDefaults("default"), payments, ephemeral}
}

// floor is how long keys of a provider must live at least, and why.
type floor struct {
	least time.Duration
	why   string
}

// windowsFloor is three times the longest time within which the provider may
// deliver an event again: by itself, when a person asks for it, or as far back as
// its API lists events. A window that is not known well counts as 30 days, unless
// it is said to be longer; so does a provider of which none is known. Operations
// have none: their callers decide how long they repeat a key.
func windowsFloor(p *providers.Provider) floor {
	spec := p.Spec()
	if p.IsOperation() {
		return floor{}
	}
	w := spec.Windows
	longest := floor{why: fmt.Sprintf("%s publishes no time within which it delivers again; %s is assumed", p.Name(), yamltree.FormatDuration(unknownWindow))}
	known := false
	for _, window := range []struct {
		name, verb string
		providers.WindowSpec
	}{
		{"retry", "retries for", w.Retry}, {"resend", "resends for", w.Resend}, {"list", "lists events for", w.List},
	} {
		length := time.Duration(window.For)
		why := fmt.Sprintf("%s %s %s (%s)", p.Name(), window.verb, yamltree.FormatDuration(length), cmp.Or(window.Source, window.Note, "its definition"))
		switch confidence := cmp.Or(spec.Confidence["windows."+window.name], spec.Confidence["windows."+window.name+".for"], spec.Confidence["windows"]); {
		case confidence == "secondary" || confidence == "unread":
			if length < unknownWindow {
				length = unknownWindow
				why = fmt.Sprintf("how long %s %s is not known well; %s is assumed", p.Name(), window.verb[:len(window.verb)-len(" for")], yamltree.FormatDuration(unknownWindow))
			}
		case length == 0:
			continue
		}
		if known = true; length > longest.least {
			longest = floor{least: length, why: why}
		}
	}
	if !known {
		longest.least = unknownWindow
	}
	longest.least *= windowFactor
	if asked := time.Duration(w.Floor); asked > longest.least {
		longest = floor{least: asked, why: fmt.Sprintf("the definition of %s asks for it", p.Name())}
	} else {
		longest.why = fmt.Sprintf("%d x the longest window: %s", windowFactor, longest.why)
	}
	return longest
}

// horizons are how long what belongs to a source of the provider is kept, in the
// class.
func horizons(c *Class, p *providers.Provider) prune.Horizons {
	h := c.Horizons()
	h.Tombstone = max(h.Tombstone, windowsFloor(p).least)
	return h
}

// Horizons are those of the class, for a source whose provider asks for no more.
func (c *Class) Horizons() prune.Horizons {
	return prune.Horizons{
		Body: c.Body, Tombstone: max(c.Tombstone, c.Body, c.Effects), Effects: c.Effects, Refusals: c.Refusals, Audit: c.Audit,
	}
}

func (r *reader) classes(cfg *Config, n *yamltree.Node) {
	for _, member := range n.Members() {
		if err := inbox.CheckClassName(member.Name()); err != nil {
			r.unusable[member.Path()] = true
			member.FailKey("%v", err)
			continue
		}
		class := classDefaults(member.Name())
		if i := slices.IndexFunc(cfg.Classes, func(c *Class) bool { return c.Name == member.Name() }); i >= 0 {
			class = cfg.Classes[i]
		} else {
			cfg.Classes = append(cfg.Classes, class)
		}
		member.Fields(map[string]func(*yamltree.Node){
			"body":      yamltree.Duration(&class.Body),
			"effects":   yamltree.Duration(&class.Effects),
			"tombstone": yamltree.Duration(&class.Tombstone),
			"refusals":  yamltree.Duration(&class.Refusals),
			"audit":     yamltree.Duration(&class.Audit),
		})
		if least := max(class.Body, class.Effects); class.Tombstone > 0 && class.Tombstone < least && member.Sound() {
			member.Member("tombstone").FailKey("%s is shorter than the %s for which bodies or effects are kept; leave it out, or shorten those",
				yamltree.FormatDuration(class.Tombstone), yamltree.FormatDuration(least))
		}
	}
}

// retention gives a source its horizons. Only a tombstone that is asked for in so
// many words can be too short.
func (r *reader) retention(cfg *Config, s *Source) {
	i := slices.IndexFunc(cfg.Classes, func(c *Class) bool { return c.Name == s.Class })
	if i < 0 || s.Provider == nil {
		return // reported already
	}
	class := cfg.Classes[i]
	if f := windowsFloor(s.Provider); class.Tombstone > 0 && class.Tombstone < f.least {
		s.node.Below("class").Fail("tombstone %s of class %s is shorter than %s = %s",
			yamltree.FormatDuration(class.Tombstone), class.Name, yamltree.FormatDuration(f.least), f.why)
	}
	s.Keep = horizons(class, s.Provider)
	r.keepOperations(s)
}

func (c *Class) effective() yaml.MapSlice {
	out := yaml.MapSlice{item("body", yamltree.FormatDuration(c.Body))}
	out = duration(out, "tombstone", c.Tombstone)
	return append(out, item("effects", yamltree.FormatDuration(c.Effects)), item("refusals", yamltree.FormatDuration(c.Refusals)), item("audit", yamltree.FormatDuration(c.Audit)))
}

// Kept says how long what belongs to each source is kept, and why its tombstones
// live that long; one line each, for people.
func (c *Config) Kept() []string {
	var out []string
	for _, s := range c.Sources {
		why := "as its class says"
		if f := windowsFloor(s.Provider); f.least >= s.Keep.Tombstone {
			why = f.why
		}
		out = append(out, fmt.Sprintf("%s, class %s: bodies %s, effects %s, refusals %s, tombstones %s: %s", s.Name, s.Class,
			yamltree.FormatDuration(s.Keep.Body), yamltree.FormatDuration(s.Keep.Effects), yamltree.FormatDuration(s.Keep.Refusals), yamltree.FormatDuration(s.Keep.Tombstone), why))
	}
	return out
}
