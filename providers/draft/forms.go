package draft

import (
	"slices"

	"github.com/oncegate/oncegate/providers"
)

// form is one way in which senders compose the message that they sign.
type form struct {
	name string
	try  func()
}

// run tries the usual forms. It tries the rare ones, which take long, only if the usual ones found
// no match.
func (s *search) run() {
	if len(s.algs) == 0 && (len(s.publics) == 0 || len(s.sums) == 0) {
		return
	}
	m := s.material()
	s.runForms(s.usualForms(m))
	if len(s.matches) == 0 {
		s.runForms(s.rareForms(m))
	}
}

func (s *search) runForms(forms []form) {
	for _, f := range forms {
		if s.cut || s.explained() {
			return
		}
		s.forms = append(s.forms, f.name)
		f.try()
	}
}

func (s *search) usualForms(m *material) []form {
	return []form{
		{"body", func() {
			for _, b := range m.bodies {
				s.try(b)
			}
		}},
		{"time and body", func() {
			for _, t := range m.times {
				for _, b := range m.bodies {
					s.arrange([]piece{t, b}, m.leads)
				}
			}
		}},
		{"header and body", func() {
			for _, h := range m.others {
				for _, b := range m.bodies {
					s.arrange([]piece{h, b}, nil)
				}
			}
		}},
		{"header, time and body", func() {
			for _, h := range m.others {
				for _, t := range m.times {
					for _, b := range m.bodies {
						s.arrange([]piece{h, t, b}, m.leads)
					}
				}
			}
		}},
		{"address and body, with time and method", func() {
			for _, u := range m.places {
				for _, b := range m.bodies {
					s.arrange([]piece{u, b}, nil)
					s.arrange([]piece{m.method, u, b}, nil)
					for _, t := range m.times {
						s.arrange([]piece{u, t, b}, nil)
						s.arrange([]piece{m.method, u, t, b}, nil)
					}
				}
			}
		}},
		{"plain digest of secret and body, with time, address and method", func() { s.tryPlainDigests(m) }},
	}
}

func (s *search) tryPlainDigests(m *material) {
	secret := piece{key: true, part: providers.Part{Word: "secret"}}
	for _, b := range m.bodies {
		s.arrange([]piece{secret, b}, nil)
		for _, t := range m.times {
			s.arrange([]piece{secret, t, b}, nil)
		}
		for _, h := range m.others {
			s.arrange([]piece{secret, h, b}, nil)
		}
		for _, u := range m.places {
			s.arrange([]piece{secret, u, b}, nil)
			s.arrange([]piece{secret, m.method, u, b}, nil)
		}
	}
	s.arrange([]piece{secret, secret, m.bodies[0]}, nil)
}

func (s *search) rareForms(m *material) []form {
	return []form{
		{"members of the content", s.members},
		{"address without body, time or headers without body", func() { s.tryWithoutBody(m) }},
		{"two headers and body, with time", func() {
			for i, h := range m.others {
				for _, g := range m.others[i+1:] {
					s.arrange([]piece{h, g, m.bodies[0]}, nil)
					for _, t := range m.times {
						s.arrange([]piece{h, g, t, m.bodies[0]}, nil)
					}
				}
			}
		}},
		{"address, header and body with two separators", func() {
			for _, u := range m.places {
				for _, x := range slices.Concat(m.others, m.times) {
					for _, b := range m.bodies {
						s.mixed([]piece{u, b, x})
					}
				}
			}
		}},
		{"address, header, time and body", func() {
			for _, u := range m.places {
				for _, h := range m.others {
					for _, t := range m.times {
						s.arrange([]piece{u, h, t, m.bodies[0]}, nil)
					}
				}
			}
		}},
	}
}

func (s *search) tryWithoutBody(m *material) {
	for _, u := range m.places {
		s.try(u)
		for _, t := range m.times {
			s.arrange([]piece{u, t}, nil)
			s.arrange([]piece{m.method, u, t}, nil)
		}
		for _, h := range m.others {
			s.arrange([]piece{u, h}, nil)
		}
	}
	for _, t := range m.times {
		s.try(t)
		for _, h := range m.others {
			s.arrange([]piece{h, t}, nil)
		}
	}
	for _, h := range m.others {
		s.try(h)
	}
}

// explained reports whether the search can stop: a signature matches, and every other value whose
// name says that it is a signature belongs to a header that matches.
func (s *search) explained() bool {
	return len(s.matches) > 0 && !slices.ContainsFunc(s.all, func(c carrier) bool {
		return c.kind != "json" && !s.matched[string(c.sum)] && s.isSignature(&c.leaf) && !slices.ContainsFunc(s.matches, func(m match) bool { return m.carrier.leaf.name == c.leaf.name })
	})
}

// arrange tries the parts in every order, with every separator, with and without each lead.
func (s *search) arrange(parts []piece, leads []string) {
	permute(parts, func(order []piece) {
		for _, separator := range separators {
			message := joined(order, separator)
			s.try(message...)
			for _, lead := range leads {
				s.try(append([]piece{literal(lead + separator)}, message...)...)
			}
		}
	})
}

// mixed tries three groups of parts with two separators.
func (s *search) mixed(parts []piece) {
	if len(parts) < 3 {
		return
	}
	permute(parts, func(order []piece) {
		for _, a := range separators {
			for _, b := range separators {
				if a == b || s.cut || len(order) != 3 {
					continue
				}
				s.try(slices.Concat(order[:1], between(a), order[1:2], between(b), order[2:])...)
			}
		}
	})
}
