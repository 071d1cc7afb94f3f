package app

import (
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/config"
)

// callersOf returns what the credentials of a source may do.
func callersOf(s *config.Source) map[string]receiver.Credential {
	out := make(map[string]receiver.Credential, len(s.Credentials))
	for _, c := range s.Credentials {
		out[c.Name] = receiver.Credential{Tenant: c.Tenant, Operations: c.Operations, NewKeys: keyQuota(c.NewKeys)}
	}
	return out
}

// tenantKeys returns the quotas of the tenants that have one.
func tenantKeys(settings *config.Config) map[string]receiver.KeyQuota {
	out := map[string]receiver.KeyQuota{}
	for _, t := range settings.Tenants {
		if t.NewKeys.N > 0 {
			out[t.Name] = keyQuota(t.NewKeys)
		}
	}
	return out
}

func keyQuota(r config.Rate) receiver.KeyQuota { return receiver.KeyQuota{Keys: r.N, Per: r.Per} }
