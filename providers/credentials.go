package providers

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
)

// checkCredentials checks the secrets of a source of operations together: no two credentials may
// share a value, and none may have more than [MaxSecrets].
func (p *Provider) checkCredentials(secrets []Secret) (errs []error) {
	digests := make([][sha256.Size]byte, len(secrets))
	count := map[string]int{}
	for i := range secrets {
		digests[i] = sha256.Sum256(secrets[i].Value)
		name := secrets[i].credentialName()
		if count[name]++; count[name] == MaxSecrets+1 {
			errs = append(errs, fmt.Errorf("provider %s: credential %s has more than %d secrets; remove those that have ended", p.name, name, MaxSecrets))
		}
		for j := range i {
			other := secrets[j].credentialName()
			if other != name && len(secrets[i].Value) > 0 && subtle.ConstantTimeCompare(digests[i][:], digests[j][:]) == 1 {
				errs = append(errs, fmt.Errorf("provider %s: credentials %s and %s have the same secret (%s, %s), which would not say who calls; give each its own secret",
					p.name, other, name, secrets[j].Name, secrets[i].Name))
			}
		}
	}
	return errs
}
