package providers

import (
	"fmt"
	"slices"
)

// identity checks the rule that distinguishes events: the sender's own event id, otherwise the
// digest of the whole payload, otherwise level. Chosen fields may identify an event only if all of
// them are always present and the sender documents that they are unique together. A weaker rule
// would treat two events as one and lose the second.
func (d *specReader) identity(s *Spec) {
	i := &s.Identity
	d.choice("identity.mode", i.Mode, []string{"id", "digest", "hash", "level"}, nil)
	if s.Verify.Family == familyOperation {
		if len(i.Candidates) > 0 || len(i.Hash) > 0 || len(i.With) > 0 || len(i.Transmission) > 0 || len(s.Type) > 0 || s.Split.JSON != "" {
			d.at("identity", "does not go with family operation, whose headers name the event")
		}
		return
	}
	if i.Mode == "id" && len(i.Candidates) == 0 {
		d.at("identity.candidates", "is required; where the sender gives no event id, say mode: digest")
	}
	if i.Mode != "id" && len(i.Candidates) > 0 {
		d.at("identity.candidates", "is valid only with mode: id")
	}
	if i.Mode == "hash" && len(i.Hash) == 0 {
		d.at("identity.hash", "is required: the fields that the sender documents as unique together")
	}
	if i.Mode != "hash" && len(i.Hash) > 0 {
		d.at("identity.hash", "is valid only with mode: hash; where candidates find nothing, the digest is the id")
	}
	if i.Mode == "level" && len(i.With) > 0 {
		d.at("identity.with", "does not go with mode: level, which reads no id")
	}
	d.fields("identity.candidates", i.Candidates, s, false)
	d.fields("identity.hash", i.Hash, s, false)
	d.fields("identity.with", i.With, s, false)
	d.fields("identity.transmission", i.Transmission, s, false)
	d.transmission(s)
	d.unique(i)
	if i.LevelSetting != "" {
		if i.Mode == "level" {
			d.at("identity.level_setting", "does not go with mode: level, in which every delivery is one")
		}
		if !slices.ContainsFunc(s.Settings, func(s SettingSpec) bool { return s.Name == i.LevelSetting }) {
			d.at("identity.level_setting", "%q is no setting of this provider", i.LevelSetting)
		}
	}
	if i.Mode == "level" && len(i.LevelWhen) > 0 {
		d.at("identity.level_when", "does not go with mode: level, in which every event is one")
	}
	for n := range i.LevelWhen {
		m := &i.LevelWhen[n]
		where := fmt.Sprintf("identity.level_when[%d]", n)
		d.field(where, &Field{Header: m.Header, JSON: m.JSON, Query: m.Query, Form: m.Form}, s, false)
		if m.Absent && m.Equals != "" {
			d.at(where+".equals", "does not go with absent: true")
		}
	}
	for n := range i.With {
		if f := &i.With[n]; len(f.Join) > 0 || f.Literal != "" || f.JSON != "" {
			d.at(fmt.Sprintf("identity.with[%d]", n), "is one of header, parent, envelope, form, query: the payload is in the digest already")
		}
	}
}

// transmission checks the places of the transmission's id. Each event has a transmission to itself, so there may be no batches.
func (d *specReader) transmission(s *Spec) {
	i := &s.Identity
	if len(i.Transmission) == 0 {
		return
	}
	if i.Mode != "id" || s.Split.JSON != "" {
		d.at("identity.transmission", "goes only with mode: id and without split, because each event needs a transmission to itself")
	}
	for n := range i.Transmission {
		if f := &i.Transmission[n]; f.Header == "" && f.Query == "" || !s.covered(f) {
			d.at(fmt.Sprintf("identity.transmission[%d]", n), "is a header or a query parameter that the signature covers")
		}
	}
}

// unique checks that chosen fields are required, and that the spec cites the sender's documentation
// of their uniqueness.
func (d *specReader) unique(i *IdentitySpec) {
	chosen := ""
	if len(i.Hash) > 0 {
		chosen = "identity.hash"
	}
	for n := range i.Hash {
		d.required(fmt.Sprintf("identity.hash[%d]", n), &i.Hash[n])
	}
	for n := range i.Candidates {
		where := fmt.Sprintf("identity.candidates[%d]", n)
		d.required(where, &i.Candidates[n])
		if joined(&i.Candidates[n]) > 1 && chosen == "" {
			chosen = where
		}
	}
	switch {
	case i.UniqueSource != "":
		d.link("identity.unique_source", i.UniqueSource)
	case chosen != "":
		d.at(chosen, "chosen fields are an id only where the sender documents them as unique together: name the page in identity.unique_source, or say mode: digest")
	}
}

// required refuses a field that may be absent or is the same for every event.
func (d *specReader) required(where string, f *Field) {
	if f.Optional || slices.ContainsFunc(f.Join, func(part Field) bool { return part.Optional || part.If != "" }) {
		d.at(where, "every part of an id is required: two events that lack an optional one would be one")
	}
	if len(f.Join) > 0 && joined(f) == 0 || len(f.Join) == 0 && f.Literal != "" {
		d.at(where, "a literal alone is the id of every event")
	}
	if f.JSON == "$" {
		d.at(where, "say mode: digest for the whole payload")
	}
}

// joined returns how many values a field combines.
func joined(f *Field) int {
	if len(f.Join) == 0 {
		if f.Literal != "" {
			return 0
		}
		return 1
	}
	n := 0
	for i := range f.Join {
		n += joined(&f.Join[i])
	}
	return n
}
