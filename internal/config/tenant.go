package config

import (
	"fmt"
	"slices"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Tenant groups the events and calls of several sources and credentials under one owner.
type Tenant struct {
	Name string
	// NewKeys limits how many new keys operations may use for the tenant in this process, in all
	// sources together. The zero Rate means no limit.
	NewKeys Rate
	// Deliveries limits how many verified deliveries the webhook sources of the tenant accept in this
	// process, all together. The zero Rate means no limit.
	Deliveries Rate
	// Database is the name of the database in which the tenant's sources live. Empty means the one that [Config.Spread] selects.
	Database string
}

// tenants reads the section tenants. Call it before the sources are read: if the section has a
// tenant, it must list all of them.
func (r *reader) tenants(n *yamltree.Node) {
	for _, member := range n.Members() {
		if !r.named(member) {
			continue
		}
		t := &Tenant{Name: member.Name()}
		r.fields(member, t.keys())
		r.cfg.Tenants = append(r.cfg.Tenants, t)
	}
}

func (t *Tenant) keys() []Key {
	return []Key{
		value("new_keys", &t.NewKeys, perTime, "no limit", "How many new keys operations take for the tenant in each process, in all sources together, such as `1000/m`."),
		value("database", &t.Database, words(checkedName), "by `spread`", "The [database](../guides/several-databases.md) in which the sources of the tenant live."),
		value("deliveries", &t.Deliveries, perTime, "no limit", "How many verified deliveries the other sources of the tenant take in each process, all together, such as `1000/m`. One beyond it is answered with 429 and Retry-After and not recorded. A sender that does not deliver again loses it: `oncegate providers show` says how long each tries."),
	}
}

// tenantKey declares a key that names a tenant.
func tenantKey(at *string, fallback, text string) Key {
	return value("tenant", at, words(checkedName), fallback, text).by(func(r *reader, n *yamltree.Node) {
		yamltree.Read(n, at, r.cfg.tenantName)
	})
}

// tenantName parses the name of a tenant. If the section tenants lists any, the name must be one of
// them, because with a misspelled name a call would escape its tenant's quota.
func (c *Config) tenantName(s string) (string, error) {
	name, err := checkedName(s)
	if err != nil || len(c.Tenants) == 0 {
		return name, err
	}
	names := make([]string, len(c.Tenants))
	for i, t := range c.Tenants {
		names[i] = t.Name
	}
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("unknown tenant; %sthose under tenants are %s", yamltree.DidYouMean(names, name), sortedList(names))
	}
	return name, nil
}

// TenantNames returns every tenant that the configuration names, sorted: those of the section
// tenants, of sources and of credentials.
func (c *Config) TenantNames() []string {
	var names []string
	for _, t := range c.Tenants {
		names = append(names, t.Name)
	}
	for _, s := range c.Sources {
		names = append(names, s.Tenants()...)
	}
	slices.Sort(names)
	return slices.Compact(slices.DeleteFunc(names, func(name string) bool { return name == "" }))
}

// Tenants returns the tenants of the source's events: the source's tenant, followed by the tenants
// of its credentials. The source's is "" if it has none.
func (s *Source) Tenants() []string {
	names := []string{s.Tenant}
	for _, c := range s.Credentials {
		if c.Tenant != "" {
			names = append(names, c.Tenant)
		}
	}
	return names
}

// warnTenants warns about quotas that have no effect.
func (r *reader) warnTenants(cfg *Config) {
	for _, t := range cfg.Tenants {
		calls := slices.ContainsFunc(cfg.Sources, func(s *Source) bool {
			return s.Provider.IsOperation() && slices.Contains(s.Tenants(), t.Name)
		})
		if t.NewKeys.N > 0 && !calls {
			r.warnings = append(r.warnings, fmt.Sprintf("tenants.%s.new_keys: no source of operations has the tenant, and other sources "+
				"have deliveries and no new keys; write tenant: %s at a credential or a source of operations, or deliveries", t.Name, t.Name))
		}
		webhooks := slices.ContainsFunc(cfg.Sources, func(s *Source) bool { return !s.Provider.IsOperation() && s.Tenant == t.Name })
		if t.Deliveries.N > 0 && !webhooks {
			r.warnings = append(r.warnings, fmt.Sprintf("tenants.%s.deliveries: no webhook source has the tenant; write tenant: %s at a source", t.Name, t.Name))
		}
	}
}
