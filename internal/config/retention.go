package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// Class is a retention class.
type Class struct {
	Name string

	// Body, Effects, Refusals and Audit are how long the class keeps these kinds of data.
	Body, Effects, Refusals, Audit time.Duration

	// Tombstone is the configured time for which keys reject duplicates. Zero means as long as the
	// event's other data is kept, and at least as long as the provider requires.
	Tombstone time.Duration

	// Durability is what the commits of its sources' events wait for. Empty means as the database's.
	Durability inbox.Durability
}

// unknownWindow is assumed for a provider's window that is not well known, or if no window is
// known. Most published windows are shorter.
const unknownWindow = 30 * day

// windowFactor is the minimum lifetime of keys, as a multiple of the provider's longest window. The
// margin covers differences between clocks, outages on both sides, and people who redeliver events
// late.
const windowFactor = 3

// classDefaults returns a class with the default horizons.
func classDefaults(name string) *Class {
	return &Class{Name: name, Body: 30 * day, Effects: 30 * day, Refusals: 30 * day, Audit: 365 * day}
}

// builtInClasses returns the classes that every configuration has. A configuration can change their
// horizons.
func builtInClasses() []*Class {
	payments, ephemeral := classDefaults("payments"), classDefaults("ephemeral")
	payments.Body, payments.Effects = 90*day, 90*day
	ephemeral.Body, ephemeral.Effects, ephemeral.Refusals = 7*day, 7*day, 7*day
	return []*Class{classDefaults("default"), payments, ephemeral}
}

// floor is the minimum lifetime of a provider's keys, with the reason.
type floor struct {
	least time.Duration
	why   string
}

// windowsFloor returns three times the longest period within which the provider may deliver an
// event again: by itself, on request, or as far back as its API lists events. A window that is not
// well known counts as 30 days, or as its stated length if that is longer. A provider without a
// known window also counts as 30 days. Operations have no floor, because their callers decide how
// long they repeat a key.
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

// horizons returns how long the data of a source is kept, based on its provider and class.
func horizons(c *Class, p *providers.Provider) prune.Horizons {
	h := c.Horizons()
	h.Tombstone = max(h.Tombstone, windowsFloor(p).least)
	return h
}

// Horizons returns the horizons of the class, without a provider's requirements.
func (c *Class) Horizons() prune.Horizons {
	return prune.Horizons{
		Body: c.Body, Tombstone: max(c.Tombstone, c.Body, c.Effects), Effects: c.Effects, Refusals: c.Refusals, Audit: c.Audit,
	}
}

func (r *reader) classes(n *yamltree.Node) {
	cfg := r.cfg
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
		r.fields(member, class.keys())
		if least := max(class.Body, class.Effects); class.Tombstone > 0 && class.Tombstone < least && member.Sound() {
			member.Member("tombstone").FailKey("%s is shorter than the %s for which bodies or effects are kept; leave it out, or shorten those",
				yamltree.FormatDuration(class.Tombstone), yamltree.FormatDuration(least))
		}
	}
}

// retention sets the horizons of a source. Only a tombstone that the configuration sets explicitly
// can be too short.
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

// Durability returns what the commits of a source's events wait for.
func (c *Config) Durability(s *Source) inbox.Durability {
	for _, class := range c.Classes {
		if class.Name == s.Class {
			return cmp.Or(class.Durability, c.Database.Durability)
		}
	}
	return c.Database.Durability
}

// Durabilities returns those that the classes of the configuration have, the weakest first, each once. There is at least one.
func (c *Config) Durabilities() (all []inbox.Durability) {
	for _, class := range c.Classes {
		all = append(all, cmp.Or(class.Durability, c.Database.Durability))
	}
	if len(all) == 0 {
		all = append(all, c.Database.Durability)
	}
	slices.SortFunc(all, inbox.Durability.Compare)
	return slices.Compact(all)
}

// NeedStandby returns the keys that ask for synchronous standbys.
func (c *Config) NeedStandby() (keys []string) {
	if c.Database.Durability.NeedsStandby() {
		keys = append(keys, "database.durability")
	}
	for _, class := range c.Classes {
		if class.Durability.NeedsStandby() {
			keys = append(keys, "classes."+class.Name+".durability")
		}
	}
	return keys
}

// checkDurability refuses a pool of the gate that is too small for the groups that may be committed at once.
func (r *reader) checkDurability(cfg *Config) {
	n := len(cfg.Durabilities())
	if least := int32(2*n + 2); n > 1 && cfg.Database.GateConnections < least && r.sound("database") && r.sound("classes") {
		r.report.Add("database.gate_connections: %d are too few for classes with %d durabilities, whose groups are committed apart: use at least %d",
			cfg.Database.GateConnections, n, least)
	}
	for _, d := range cfg.Databases {
		if least := int32(2*n + 2); n > 1 && d.GateConnections > 0 && d.GateConnections < least && r.sound("databases") && r.sound("classes") {
			r.report.Add("databases.%s.gate_connections: %d are too few for classes with %d durabilities, whose groups are committed apart: use at least %d",
				d.Name, d.GateConnections, n, least)
		}
	}
}

func (c *Class) keys() []Key {
	return []Key{
		value("body", &c.Body, duration, "the built-in class's", "How long bodies and headers are kept."),
		value("effects", &c.Effects, duration, "the built-in class's", "How long settled effects and their attempts are kept."),
		value("tombstone", &c.Tombstone, duration, "three times the provider's longest window, at least 30 days", "How long an event's key recognises duplicates. A value below the provider's longest window is refused."),
		value("refusals", &c.Refusals, duration, "the built-in class's", "How long refused deliveries are kept."),
		value("audit", &c.Audit, duration, "the built-in class's", "How long the audit is kept."),
		value("durability", &c.Durability, durabilities, "as `database.durability`", "What a 2xx to a sender of its sources waits for, as [`database.durability`](#database) says."),
	}
}

// Kept describes how long the data of each source is kept, and why its tombstones live that long,
// in one line per source.
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
