package draft

import (
	"fmt"
	"strings"
)

func (s *search) tried() Tried {
	t := Tried{Combinations: s.count, Carriers: described(s.all), Forms: s.forms, Cut: s.cut}
	for i := range s.keys {
		t.Keys = append(t.Keys, s.keys[i].text)
	}
	for i := range s.publics {
		t.Keys = append(t.Keys, s.publics[i].text+" ("+s.publics[i].algorithm+")")
	}
	return t
}

// fits returns one fit for each signature that matched.
func (s *search) fits() []Fit {
	var out []Fit
	seen := map[string]bool{}
	for i := range s.matches {
		m := &s.matches[i]
		id := m.carrier.where() + "\x00" + string(m.carrier.sum)
		if seen[id] {
			continue // the same bytes, interpreted differently
		}
		if strings.Contains(m.alg, "md5") || m.alg == "sha512" || m.alg == "sha384" {
			seen[id] = true
			s.near = append(s.near, fmt.Sprintf("%s is the %s of %s: no provider can be written for it; ask the sender for HMAC-SHA256", m.carrier.text(), strings.ToUpper(m.alg), spoken(m.pieces)))
			continue
		}
		seen[id] = true
		out = append(out, m.fit())
	}
	return out
}
