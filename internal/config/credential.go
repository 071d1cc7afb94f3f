package config

import (
	"cmp"
	"errors"
	"regexp"
	"slices"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// Credential identifies a caller of a source of operations. Its name is part of the key of every
// call; its secrets are not, so replacing a secret does not change keys.
type Credential struct {
	Name string
	// Secrets are all accepted, each until it expires. The newest is first.
	Secrets []Reference
	// Tenant is the tenant for which the calls are made. It defaults to the source's tenant.
	Tenant string
	// Operations lists the operations that the credential may call. Nil means all.
	Operations []string
	// NewKeys limits how many new keys the credential may use in this process. The zero Rate means
	// no limit.
	NewKeys Rate
}

func (r *reader) credentials(n *yamltree.Node) []*Credential {
	var out []*Credential
	for _, member := range n.Members() {
		if _, err := checkedName(member.Name()); err != nil {
			member.FailKey("%v", err)
			continue
		}
		out = append(out, r.credential(member))
	}
	slices.SortFunc(out, func(a, b *Credential) int { return cmp.Compare(a.Name, b.Name) })
	if len(out) == 0 && n.Sound() {
		n.Fail("is empty: name a credential, such as planner: { secrets: [env:PLANNER_SECRET] }")
	}
	return out
}

func (r *reader) credential(n *yamltree.Node) *Credential {
	c := &Credential{Name: n.Name()}
	r.fields(n, c.keys())
	if len(c.Secrets) == 0 && n.Sound() {
		n.FailKey("secrets are missing: a list of references, such as secrets: [env:%s_SECRET]", variableOf(c.Name))
	}
	return c
}

func (c *Credential) keys() []Key {
	return []Key{
		secrets("secrets", &c.Secrets, "required", "[Secrets](#secrets) without `name`, newest first. All of them are accepted, each until its own `until`; 8 at most.").by(func(r *reader, n *yamltree.Node) { c.Secrets = r.credentialSecrets(c.Name, n) }),
		tenantKey(&c.Tenant, "the source's", "Who the calls are made for."),
		list("operations", &c.Operations, words(operationName), "every operation", "The names of those that the credential may call, of the declared ones if the source declares any. Others are answered with 403, and no key is spent.").notEmpty(", and the credential could call nothing; leave it out to allow every operation"),
		value("new_keys", &c.NewKeys, perTime, "no limit", "How many new keys the credential takes in each process, such as `600/m` (`s`, `m` or `h`). Beyond it a new call is answered with 429; repeated calls are always answered."),
	}
}

// credentialSecrets reads the secrets of one credential. They have the credential's name, so a name
// of their own is an error.
func (r *reader) credentialSecrets(credential string, n *yamltree.Node) []Reference {
	for _, item := range n.Items() {
		if name := item.Member("name"); name != nil {
			name.Fail("the secrets of a credential have its name; leave name out")
		}
	}
	if !n.Sound() {
		return nil
	}
	refs := r.secrets(n, "")
	for i := range refs {
		refs[i].secret.Credential = credential
	}
	return refs
}

var operationNameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func operationName(s string) (string, error) {
	if !operationNameForm.MatchString(s) {
		return "", errors.New("an operation is at most 64 of a-z, 0-9, ., _ and -, and starts with a letter or digit")
	}
	return s, nil
}

// checkCredentials checks the section credentials against the source's provider and its section
// secrets.
func (r *reader) checkCredentials(s *Source) {
	n := s.node.Member("credentials")
	if n == nil {
		return
	}
	switch {
	case s.Provider != nil && !s.Provider.IsOperation():
		n.FailKey("credentials are for the provider operation; %s has senders and no callers: write secrets", s.Provider.Name())
	case s.node.Member("secrets") != nil:
		n.FailKey("credentials and secrets exclude each other: write each secret under the credential that has its name, and the keys stay the same")
	}
}

// checkCredentialOperations checks that the source declares the operations that its credentials may
// call. With a misspelled name, the source would refuse every call.
func (r *reader) checkCredentialOperations(s *Source) {
	if len(s.Operations) == 0 || !s.node.Member("operations").Sound() {
		return
	}
	names := make([]string, len(s.Operations))
	for i, o := range s.Operations {
		names[i] = o.Name
	}
	for _, c := range s.Credentials {
		at := s.node.Member("credentials").Member(c.Name).Member("operations")
		for _, name := range c.Operations {
			if at.Sound() && !slices.Contains(names, name) {
				at.FailKey("%q is no operation of the source; %sdeclared are %s", name, yamltree.DidYouMean(names, name), sortedList(names))
			}
		}
	}
}

// Keys returns the source's secrets with their values.
func (s *Source) Keys() []providers.Secret { return values(s.AllSecrets()) }

// AllSecrets returns the references to the secrets of the source, or of all its credentials.
func (s *Source) AllSecrets() []Reference {
	if len(s.Credentials) == 0 {
		return s.Secrets
	}
	var out []Reference
	for _, c := range s.Credentials {
		out = append(out, c.Secrets...)
	}
	return out
}
