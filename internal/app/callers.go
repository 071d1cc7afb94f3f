package app

import (
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/config"
)

// callersOf returns what the credentials of a source may do.
func callersOf(s *config.Source) map[string]receiver.Credential {
	out := make(map[string]receiver.Credential, len(s.Credentials))
	for _, c := range s.Credentials {
		out[c.Name] = receiver.Credential{Tenant: c.Tenant, Operations: c.Operations, NewKeys: quotaOf(c.NewKeys)}
	}
	return out
}

// tenantQuotas returns the quotas of the tenants that have one: of new keys, and of deliveries.
func tenantQuotas(settings *config.Config) (keys, deliveries map[string]receiver.Quota) {
	keys, deliveries = map[string]receiver.Quota{}, map[string]receiver.Quota{}
	for _, t := range settings.Tenants {
		if t.NewKeys.N > 0 {
			keys[t.Name] = quotaOf(t.NewKeys)
		}
		if t.Deliveries.N > 0 {
			deliveries[t.Name] = quotaOf(t.Deliveries)
		}
	}
	return keys, deliveries
}

func quotaOf(r config.Rate) receiver.Quota { return receiver.Quota{N: r.N, Per: r.Per} }
