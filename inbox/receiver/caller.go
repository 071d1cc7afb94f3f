package receiver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Credential says what a caller of an operation source may do after it has proved that it has
// one of the credential's secrets.
type Credential struct {
	// Tenant is who the calls are made for. Empty is the source's.
	Tenant string

	// Operations are the names of those that it may call (403 for others, and no key is
	// spent). nil is all, and an empty list is none.
	Operations []string

	// NewKeys is how many new keys the credential may take in this process. Zero is no limit.
	NewKeys Quota
}

// caller is who makes a call, as far as a verified credential proves it.
type caller struct {
	// credential is the name of the credential, which leads every key.
	credential string

	// tenant is the tenant for which the call is made; empty if there is none.
	tenant string

	// operations are the names of those that the caller may call; nil is all.
	operations []string

	// quotas bound the new keys that the caller takes. Each is shared with all other callers
	// that it bounds.
	quotas quotas
}

// mayCall reports whether the caller may call the operation.
func (c *caller) mayCall(operation string) bool {
	return c.operations == nil || slices.Contains(c.operations, operation)
}

// giveKey returns the key that was taken from the quotas, because it was not new.
func (c *caller) giveKey() {
	for _, q := range c.quotas {
		q.give()
	}
}

// callers are the callers that a source knows.
type callers struct {
	named map[string]caller // by their credential

	// tenant and quotas are of every credential that is not named.
	tenant string
	quotas quotas
}

// newCallers makes the callers of the source with that name. tenants are the quotas of the tenants, which all
// sources share.
func newCallers(name string, s *Source, set *quotaSet, tenants map[string]*quota) (*callers, error) {
	var errs []error
	all := &callers{named: make(map[string]caller, len(s.Credentials)), tenant: s.Inbox.Tenant}
	source := set.bucket(name, "the source", countsKeys, Quota{N: s.NewKeys, Per: time.Minute})
	all.quotas = joinQuotas(source, tenants[s.Inbox.Tenant])
	for _, credential := range slices.Sorted(maps.Keys(s.Credentials)) {
		c := s.Credentials[credential]
		if err := c.NewKeys.check(); err != nil {
			errs = append(errs, fmt.Errorf("credential %q: NewKeys: %w", credential, err))
			continue
		}
		tenant := cmp.Or(c.Tenant, s.Inbox.Tenant)
		all.named[credential] = caller{
			credential: credential, tenant: tenant, operations: slices.Clone(c.Operations),
			quotas: joinQuotas(source, set.bucket(name, "credential "+credential, countsKeys, c.NewKeys), tenants[tenant]),
		}
	}
	if len(s.Credentials) > 0 && !s.Provider.IsOperation() {
		errs = append(errs, errors.New("only sources of operations have Credentials"))
	}
	return all, errors.Join(errs...)
}

// find returns the caller with the credential.
func (c *callers) find(credential string) caller {
	if known, ok := c.named[credential]; ok {
		return known
	}
	return caller{credential: credential, tenant: c.tenant, quotas: c.quotas}
}

// tenants returns the tenants for which requests to the source can be made.
func (c *callers) tenants() []string {
	out := []string{c.tenant}
	for _, known := range c.named {
		out = append(out, known.tenant)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tenant is who the request is for: the source's tenant until a caller with another one is
// verified.
func (req *request) tenant() string {
	if req.call == nil {
		return req.source.Inbox.Tenant
	}
	return cmp.Or(req.caller.tenant, req.source.Inbox.Tenant)
}
