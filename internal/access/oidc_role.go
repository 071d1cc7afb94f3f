package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/visible"
)

// person is who logged in at the provider.
type person struct {
	grant logins.Grant
	role  string
}

// personOf gives a person's role. It refuses whoever has none.
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
	return nil, &control.Problem{Code: control.CodeForbidden, Detail: fmt.Sprintf("you are %s, and %s here: ask whoever runs Oncegate to name one under console.oidc.roles", name, what)}
}

// maxName bounds the name of a person in bytes: the audit keeps 128 for an actor.
const maxName = 120

// actorOf names a person in the audit: by the email address, if the provider has verified it, and else by
// the subject, which the provider gives to nobody else. Other names are what people call themselves.
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

// claimValues gives the texts of a claim: one, or those of a list.
func claimValues(claims map[string]any, path string) []string {
	var found any = claims[path]
	if found == nil { // a claim that has dots in its name is found by the whole name
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
