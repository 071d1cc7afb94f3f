package providers

import "fmt"

// modes checks the verify section of each mode.
func (d *specReader) modes(s *Spec) {
	names := map[string]bool{}
	for i := range s.Modes {
		m := &s.Modes[i]
		where := fmt.Sprintf("modes[%d]", i)
		if m.Name == "" || names[m.Name] {
			d.at(where+".name", "is required, once each")
		}
		names[m.Name] = true
		if len(m.When) == 0 {
			d.at(where+".when", "is required: the headers by which the mode is known")
		}
		d.headerMatches(where+".when", m.When)
		mode := *d
		mode.prefix = where + "."
		mode.verify(&m.Verify)
	}
	d.headerMatches("verify.require", s.Verify.Require)
}

func (d *specReader) headerMatches(where string, list []MatchSpec) {
	for i := range list {
		at := fmt.Sprintf("%s[%d]", where, i)
		d.headerName(at+".header", list[i].Header)
		if list[i].JSON != "" || list[i].Query != "" {
			d.at(at, "only headers are looked at here")
		}
	}
}
