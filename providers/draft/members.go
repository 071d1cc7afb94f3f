package draft

import (
	"slices"
	"strings"
)

// maxMembers limits how many members of the content take part in combinations.
const maxMembers = 14

// members tries combinations of the members in the same object as the signature, and of those at
// the root.
func (s *search) members() {
	var pieces []piece
	add := func(l leaf) {
		if l.value == "" || len(l.value) > 512 || len(pieces) >= maxMembers || slices.ContainsFunc(pieces, func(p piece) bool { return p.part.JSON == l.name && p.part.Form == "" || p.part.Form == l.name }) {
			return
		}
		p := piece{value: []byte(l.value), part: part(&l), field: true}
		if at, ok := readClock(l.value); ok {
			p.stamp = &stamp{l.kind, l.name, at.unit}
		}
		pieces = append(pieces, p)
	}
	for i := range s.all {
		if c := &s.all[i]; c.kind == "json" && s.plausible(c) {
			parent := c.leaf.name[:strings.LastIndexByte(c.leaf.name, '.')+1]
			for _, l := range s.c.json {
				if rest, ok := strings.CutPrefix(l.name, parent); ok && !strings.Contains(rest, ".") && l.name != c.leaf.name {
					add(l)
				}
			}
		}
	}
	for _, l := range slices.Concat(s.c.form, s.c.json) {
		if !strings.Contains(l.name, ".") || l.kind == "form" {
			add(l)
		}
	}
	for i := range pieces {
		s.try(pieces[i])
		for j := range pieces {
			if i == j {
				continue
			}
			for _, separator := range separators {
				s.try(joined([]piece{pieces[i], pieces[j]}, separator)...)
			}
			for k := range pieces {
				if k == i || k == j {
					continue
				}
				for _, separator := range separators {
					s.try(joined([]piece{pieces[i], pieces[j], pieces[k]}, separator)...)
				}
			}
		}
	}
}

// plausible reports whether a member's name suggests that it is a signature.
func (s *search) plausible(c *carrier) bool {
	name := strings.ToLower(c.leaf.name)
	return strings.Contains(name, "sig") || strings.Contains(name, "hmac") || strings.Contains(name, "hash")
}
