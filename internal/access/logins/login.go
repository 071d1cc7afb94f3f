// Package logins stores the logins of the console: who is logged in, with what access, and until
// when. It also stores one-time login links. It stores the SHA-256 of a cookie's value or a link's
// code, and never the value itself.
package logins

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// Actions in audit entries. Stored: never change.
const (
	// AuditLogin records that a person logged in to the console.
	AuditLogin inbox.AuditAction = "login.begin"
	// AuditLogout records that a person logged out of the console.
	AuditLogout inbox.AuditAction = "login.end"
	// AuditRevoke records that an operator ended the login of another person.
	AuditRevoke inbox.AuditAction = "login.revoke"
	// AuditLink records that a one-time login link was created.
	AuditLink inbox.AuditAction = "login.link"
)

var (
	// ErrNotFound is returned for a login that does not exist.
	ErrNotFound = errors.New("there is no such login")
	// ErrEnded is returned for a login that has already ended or expired.
	ErrEnded = errors.New("the login is over already")
	// ErrLink is returned for a link that was used, has expired or never existed.
	ErrLink = errors.New("the link was used already, or has expired")
)

// Method is the way in which a person logged in. Stored: never change.
type Method string

// The methods.
const (
	// ByToken is a login with a token that the person entered.
	ByToken Method = "token"
	// ByOIDC is a login at an OpenID Connect provider.
	ByOIDC Method = "oidc"
	// ByLink is a login with a one-time link.
	ByLink Method = "link"
)

// Grant describes who is logged in, and what the login permits.
type Grant struct {
	// Actor is the person's name in audit entries. Required.
	Actor string
	// Scopes are the names of the scopes that the login has. Required.
	Scopes []string
	// Tenant restricts the login to one tenant's data. Empty means all tenants.
	Tenant string
}

// Login is one login. It does not contain the value of the cookie.
type Login struct {
	ID     inbox.ID `json:"id"`
	Actor  string   `json:"actor"`
	Scopes []string `json:"scopes"`
	Tenant string   `json:"tenant,omitempty"`
	Method Method   `json:"method"`

	// Token is the token with which the person logged in; zero if there was none. The login ends
	// when the token does.
	Token inbox.ID `json:"-"`

	CreatedAt time.Time `json:"created_at"`
	// UsedAt is when the login was last used, with a precision of one minute.
	UsedAt time.Time `json:"used_at"`
	// ExpiresAt is when the login ends, even if it is in use.
	ExpiresAt time.Time `json:"expires_at"`
	// EndedAt is when the person logged out or the login was revoked, or nil.
	EndedAt *time.Time `json:"ended_at,omitempty"`

	// State is the state at the time of the query.
	State State `json:"state"`

	tokenEnded bool // the token was revoked, or has expired
}

// State reports whether a login works. Programs read it: never change.
type State string

// The states of logins.
const (
	// Active logins work.
	Active State = "active"
	// Expired logins were unused for too long, reached their end, or belong to a token that stopped
	// working.
	Expired State = "expired"
	// Ended logins were logged out or revoked.
	Ended State = "ended"
)

// stateAt returns the state of a login. The login expires when it has been unused for idle.
func (l *Login) stateAt(now time.Time, idle time.Duration) State {
	switch {
	case l.EndedAt != nil:
		return Ended
	case l.tokenEnded, !now.Before(l.ExpiresAt), now.Sub(l.UsedAt) >= idle:
		return Expired
	}
	return Active
}

// newSecret returns the value of a cookie or the code of a link: 256 random bits.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Plausible reports whether text has the form of a cookie's value or a link's code. The caller
// rejects other text without a lookup.
func Plausible(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == 32
}

// Digest returns the digest that is stored for a cookie's value or a link's code.
func Digest(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }
