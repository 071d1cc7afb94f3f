package providers

import (
	"net/http"
	"slices"
)

// CredentialHeaders returns the canonical names of the headers that contain a static credential in
// any of the provider's modes. Oncegate neither stores nor forwards them, because anyone who reads
// one could use it.
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
