// Package tokens stores the tokens with which people and programs access the API and the console.
// It stores the SHA-256 of a token and never the token itself.
package tokens

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// Actions in audit entries. Stored: never change.
const (
	// AuditCreate records that a token was created.
	AuditCreate inbox.AuditAction = "token.create"
	// AuditRevoke records that a token was revoked.
	AuditRevoke inbox.AuditAction = "token.revoke"
)

var (
	// ErrName is returned for an invalid token name.
	ErrName = errors.New("a name is at most 63 of a-z, 0-9, ., - and _, and starts with a letter or digit")
	// ErrNameTaken is returned if another token that is not revoked has the name.
	ErrNameTaken = errors.New("a token that is not revoked has the name")
	// ErrExpiry is returned for an expiry in the past.
	ErrExpiry = errors.New("the expiry is not in the future")
	// ErrScopes is returned for a token without scopes.
	ErrScopes = errors.New("a token needs at least one scope")
	// ErrNotFound is returned for a token that does not exist.
	ErrNotFound = errors.New("there is no such token")
	// ErrRevoked is returned for a token that was already revoked.
	ErrRevoked = errors.New("the token is revoked already")
)

// Token describes a token. It does not contain the token itself.
type Token struct {
	ID inbox.ID `json:"id"`

	// Prefix is the beginning of the token, by which people recognize it.
	Prefix string `json:"prefix"`

	// Name is unique among the tokens that are not revoked.
	Name string `json:"name"`

	// Scopes are the names of the scopes that the token has.
	Scopes []string `json:"scopes"`

	// Tenant restricts the token to one tenant's data. Empty means all tenants.
	Tenant string `json:"tenant,omitempty"`

	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`

	// ExpiresAt is when the token stops working. Nil means never.
	ExpiresAt *time.Time `json:"expires_at"`

	// LastUsedAt is when the token was last used, with a precision of one minute. Nil means never.
	LastUsedAt *time.Time `json:"last_used_at"`

	// RevokedAt is when the token was revoked. Nil means that it was not.
	RevokedAt *time.Time `json:"revoked_at,omitempty"`

	// State is the state at the time of the query.
	State State `json:"state"`
}

// State reports whether a token works. Programs read it: never change.
type State string

// The states of tokens.
const (
	// Active tokens work.
	Active State = "active"
	// Expired tokens have reached their expiry.
	Expired State = "expired"
	// Revoked tokens were ended by an operator.
	Revoked State = "revoked"
)

// StateAt returns the state at a time. A token that is both revoked and expired counts as revoked.
func (t *Token) StateAt(now time.Time) State {
	switch {
	case t.RevokedAt != nil:
		return Revoked
	case t.ExpiresAt != nil && !now.Before(*t.ExpiresAt):
		return Expired
	}
	return Active
}

// Actor returns what audit entries name as the actor of actions with the token: its name and its id, because the name of a
// revoked token can be given to another one.
func (t *Token) Actor() string { return "token:" + t.Name + "/" + t.ID.String() }

// New describes a token to create.
type New struct {
	// Name is required: at most 63 of a-z, 0-9, ., - and _, starting with a letter or digit.
	Name string

	// Scopes are required. The caller must check that each is a known scope.
	Scopes []string

	// Tenant restricts the token to one tenant's data. Empty means all tenants.
	Tenant string

	// ExpiresAt is when the token stops working. The zero time means never.
	ExpiresAt time.Time

	// Actor names the creator of the token, for the audit. Required.
	Actor string
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// check reports why the token cannot be created, or nil.
func (n *New) check(now time.Time) error {
	switch {
	case !nameForm.MatchString(n.Name):
		return ErrName
	case len(n.Scopes) == 0:
		return ErrScopes
	case !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now):
		return ErrExpiry
	}
	if err := inbox.CheckExplanation(n.Actor, "a token is created"); err != nil {
		return fmt.Errorf("who creates the token: %w", err)
	}
	return nil
}
