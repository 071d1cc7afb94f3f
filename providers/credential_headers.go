package providers

import (
	"net/http"
	"slices"
)

// CredentialHeaders names the headers that carry a static credential in one of
// the ways in which the provider proves its requests, in their canonical form.
// Whoever reads one could use it, so none is kept or passed on.
func (s *Spec) CredentialHeaders() []string {
	credentials := slices.Clone(s.Verify.Credential)
	for i := range s.Modes {
		credentials = append(credentials, s.Modes[i].Verify.Credential...)
	}
	var names []string
	for _, c := range credentials {
		for _, name := range []string{c.Header, c.Name} {
			if name != "" {
				names = append(names, http.CanonicalHeaderKey(name))
			}
		}
	}
	return names
}
