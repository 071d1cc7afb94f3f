package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/visible"
)

// person is a person who logged in at the provider.
type person struct {
	grant logins.Grant
	role  string
}

// personOf returns the person and the access of their role. It refuses a person without a role.
func (c *OIDC) personOf(identity *oidc.IDToken) (*person, error) {
	var claims map[string]any
	if err := identity.Claims(&claims); err != nil {
		return nil, unauthorized("the identity token cannot be read")
	}
	name := actorOf(identity.Subject, claims)
	values := claimValues(claims, c.Claim)
	for _, role := range c.Roles {
		if slices.Contains(values, role.Value) {
			return &person{
				grant: logins.Grant{Actor: "oidc:" + name, Scopes: role.Scopes, Tenant: role.Tenant}, role: role.Value,
			}, nil
		}
	}
	what := fmt.Sprintf("no value of your claim %s has a role", c.Claim)
	if len(values) == 0 {
		what = fmt.Sprintf("your account has no claim %s", c.Claim)
	}
	return nil, &control.Problem{Code: control.CodeForbidden, Detail: fmt.Sprintf("you are %s, and %s here: ask the operator of Oncegate to name one under console.oidc.roles", name, what)}
}

// maxName is the maximum length of a person's name in bytes. The audit stores at most 128 bytes for
// an actor.
const maxName = 120

// actorOf returns the name of a person for audit entries: the email address if the provider has
// verified it, otherwise the subject, which the provider assigns to only one person. People can
// choose their other names freely.
func actorOf(subject string, claims map[string]any) string {
	name := subject
	if email, ok := claims["email"].(string); ok && email != "" && (claims["email_verified"] == true || claims["email_verified"] == "true") {
		name = email
	}
	name = visible.Text(name)
	for len(name) > maxName {
		runes := []rune(name)
		name = string(runes[:len(runes)-1])
	}
	return name
}

// claimValues returns the strings of a claim, which is a string or a list of strings.
func claimValues(claims map[string]any, path string) []string {
	var found any = claims[path]
	if found == nil { // a claim may have dots in its own name, so that name comes first
		found = claims
		for step := range strings.SplitSeq(path, ".") {
			nested, ok := found.(map[string]any)
			if !ok {
				return nil
			}
			found = nested[step]
		}
	}
	switch found := found.(type) {
	case string:
		return []string{found}
	case []any:
		var values []string
		for _, one := range found {
			if text, ok := one.(string); ok {
				values = append(values, text)
			}
		}
		return values
	}
	return nil
}
