package control

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is a permission. The words are stored with tokens: never change one.
type Scope string

// The scopes.
const (
	// ReadMetadata shows everything but content: no bodies, results, or values of payloads.
	ReadMetadata Scope = "read-metadata"

	// ReadPayload shows content as well. It includes [ReadMetadata].
	ReadPayload Scope = "read-payload"

	// Operate decides: replay, discard, resolve, skip. It includes [ReadMetadata].
	Operate Scope = "operate"

	// Admin includes all the others, and is needed for tokens, erasure and what concerns the whole installation.
	Admin Scope = "admin"
)

// KnownScopes are all scopes, the least first.
func KnownScopes() []Scope { return []Scope{ReadMetadata, ReadPayload, Operate, Admin} }

// Scopes are what somebody may do.
type Scopes []Scope

// ParseScopes reads the names of scopes.
func ParseScopes(names []string) (Scopes, error) {
	var scopes Scopes
	for _, name := range names {
		scope := Scope(name)
		if !slices.Contains(KnownScopes(), scope) {
			return nil, fmt.Errorf("the scope %q is unknown; known are %s", name, Scopes(KnownScopes()))
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// Allow reports whether the scopes include wanted, by themselves or by what they include.
func (s Scopes) Allow(wanted Scope) bool {
	return slices.Contains(s, wanted) || slices.Contains(s, Admin) || wanted == ReadMetadata && len(s) > 0
}

// String gives the names, separated by commas.
func (s Scopes) String() string {
	names := make([]string, len(s))
	for i, scope := range s {
		names[i] = string(scope)
	}
	return strings.Join(names, ", ")
}

// Access is who asks, and what they may see and do. The zero Access may do nothing.
type Access struct {
	// Actor is who the audit names.
	Actor string

	// Scopes are what they may do.
	Scopes Scopes

	// Tenant is whose things they may see: others do not exist for them. Empty is everything.
	Tenant string
}

// Everything is the access of somebody who has the database itself.
func Everything(actor string) Access { return Access{Actor: actor, Scopes: Scopes{Admin}} }

// check is the one place where a scope is asked for.
func (a Access) check(wanted Scope) error {
	if a.Scopes.Allow(wanted) {
		return nil
	}
	return &Problem{Code: CodeForbidden, Detail: fmt.Sprintf("this needs the scope %s; your access has %s", wanted, or(a.Scopes.String(), "none"))}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
