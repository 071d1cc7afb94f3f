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

	// Admin includes all the others. Tokens, erasure and everything that affects the whole installation need it.
	Admin Scope = "admin"
)

// KnownScopes returns all scopes, the least powerful first.
func KnownScopes() []Scope { return []Scope{ReadMetadata, ReadPayload, Operate, Admin} }

// Scopes are the permissions of a caller.
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

// Allow reports whether the scopes contain wanted or a scope that includes it.
func (s Scopes) Allow(wanted Scope) bool {
	return slices.Contains(s, wanted) || slices.Contains(s, Admin) || wanted == ReadMetadata && len(s) > 0
}

// String returns the names, separated by commas.
func (s Scopes) String() string {
	names := make([]string, len(s))
	for i, scope := range s {
		names[i] = string(scope)
	}
	return strings.Join(names, ", ")
}

// Access identifies the caller and says what the caller may see and do. The zero Access may do nothing.
type Access struct {
	// Actor is the name of the caller in the audit.
	Actor string

	// Credential identifies what the caller was authenticated by: token/ and the id of a token, also for a login that was
	// begun with it, or login/ and the id of another login. It is empty for a caller with direct access to the database.
	Credential string

	// Scopes are the caller's permissions.
	Scopes Scopes

	// Tenant limits the caller to the objects of one tenant; for the caller, others do not exist. Empty is no
	// limit.
	Tenant string

	// Database is the name of the database that the caller chose, of a process with several. Empty means every one that the
	// operation concerns.
	Database string
}

// Everything returns the access of a caller who has direct access to the database.
func Everything(actor string) Access { return Access{Actor: actor, Scopes: Scopes{Admin}} }

// check is the only place that checks scopes.
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
