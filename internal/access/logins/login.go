// Package logins keeps the logins of the console: who is logged in, with what access, and until
// when. It also keeps the links that log in once. It stores the SHA-256 of what a browser or a link
// holds, and never the value itself.
package logins

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// The actions that the audit records. Stored: never change.
const (
	// AuditLogin records that somebody logged in to the console.
	AuditLogin inbox.AuditAction = "login.begin"
	// AuditLogout records that somebody logged out of the console.
	AuditLogout inbox.AuditAction = "login.end"
	// AuditRevoke records that a login was ended by somebody else.
	AuditRevoke inbox.AuditAction = "login.revoke"
	// AuditLink records that a link was made which logs in once.
	AuditLink inbox.AuditAction = "login.link"
)

var (
	// ErrNotFound is returned for a login that does not exist.
	ErrNotFound = errors.New("there is no such login")
	// ErrEnded is returned for a login that is over already.
	ErrEnded = errors.New("the login is over already")
	// ErrLink is returned for a link that was used, has expired or never existed.
	ErrLink = errors.New("the link was used already, or has expired")
)

// Method is how somebody logged in. Stored: never change.
type Method string

// The methods.
const (
	// ByToken is a login with a token that was typed in.
	ByToken Method = "token"
	// ByOIDC is a login at an OpenID Connect provider.
	ByOIDC Method = "oidc"
	// ByLink is a login with a link that works once.
	ByLink Method = "link"
)

// Grant is what a login permits, and to whom.
type Grant struct {
	// Actor is the name under which the audit records what the person does. Required.
	Actor string
	// Scopes are the words of what the login permits. Required.
	Scopes []string
	// Tenant is the only tenant whose things the login reaches; empty is everybody's.
	Tenant string
}

// Login is one login. It does not hold the cookie's value.
type Login struct {
	ID     inbox.ID `json:"id"`
	Actor  string   `json:"actor"`
	Scopes []string `json:"scopes"`
	Tenant string   `json:"tenant,omitempty"`
	Method Method   `json:"method"`

	// Token is the token that the login began with, and with which it ends; zero is none.
	Token inbox.ID `json:"-"`

	CreatedAt time.Time `json:"created_at"`
	// UsedAt is when the login was used last, to the minute.
	UsedAt time.Time `json:"used_at"`
	// ExpiresAt is when the login ends, however often it is used.
	ExpiresAt time.Time `json:"expires_at"`
	// EndedAt is when the person logged out, or when the login was revoked; nil is neither.
	EndedAt *time.Time `json:"ended_at,omitempty"`

	// State is the state at the time of the list.
	State State `json:"state"`

	tokenEnded bool // the token was revoked, or has expired
}

// State says whether a login works. Programs read it: never change.
type State string

// The states of logins.
const (
	// Active logins work.
	Active State = "active"
	// Expired logins were not used for too long, reached their end, or lost their token.
	Expired State = "expired"
	// Ended logins were logged out or revoked.
	Ended State = "ended"
)

// stateAt gives the state of a login that ends when it was idle for so long.
func (l *Login) stateAt(now time.Time, idle time.Duration) State {
	switch {
	case l.EndedAt != nil:
		return Ended
	case l.tokenEnded, !now.Before(l.ExpiresAt), now.Sub(l.UsedAt) >= idle:
		return Expired
	}
	return Active
}

// newSecret makes the value of a cookie or the code of a link: 256 random bits.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Plausible reports whether text has the form of a cookie's value or of a link's code. What does
// not is never looked up.
func Plausible(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == 32
}

// Digest is what is stored of a cookie's value or of a link's code.
func Digest(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }
