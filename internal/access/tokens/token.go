// Package tokens keeps the tokens with which people and programs reach the API and the console. It
// stores the SHA-256 of a token and never the token.
package tokens

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// The actions that the audit records. Stored: never change.
const (
	// AuditCreate records that a token was created.
	AuditCreate inbox.AuditAction = "token.create"
	// AuditRevoke records that a token was revoked.
	AuditRevoke inbox.AuditAction = "token.revoke"
)

var (
	// ErrName is returned for a name that a token cannot have.
	ErrName = errors.New("a name is at most 63 of a-z, 0-9, ., - and _, and starts with a letter or digit")
	// ErrNameTaken is returned for a name that a token has which is not revoked.
	ErrNameTaken = errors.New("a token that is not revoked has the name")
	// ErrExpiry is returned for an expiry that has passed.
	ErrExpiry = errors.New("the expiry is not in the future")
	// ErrScopes is returned for a token without scopes.
	ErrScopes = errors.New("a token needs at least one scope")
	// ErrNotFound is returned for a token that does not exist.
	ErrNotFound = errors.New("there is no such token")
	// ErrRevoked is returned for a token that was revoked before.
	ErrRevoked = errors.New("the token is revoked already")
)

// Token is what is known of a token. It does not hold the token itself.
type Token struct {
	ID inbox.ID `json:"id"`

	// Prefix is the first characters of the token, by which people recognise it.
	Prefix string `json:"prefix"`

	// Name is unique among the tokens that are not revoked.
	Name string `json:"name"`

	// Scopes are the words of what the token permits.
	Scopes []string `json:"scopes"`

	// Tenant is the only tenant whose things the token reaches; empty is everybody's.
	Tenant string `json:"tenant,omitempty"`

	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`

	// ExpiresAt is when the token stops working; nil is never.
	ExpiresAt *time.Time `json:"expires_at"`

	// LastUsedAt is when the token was used last, to the minute; nil is never.
	LastUsedAt *time.Time `json:"last_used_at"`

	// RevokedAt is when the token was revoked; nil is not.
	RevokedAt *time.Time `json:"revoked_at,omitempty"`

	// State is the state at the time of the list.
	State State `json:"state"`
}

// State says whether a token works. Programs read it: never change.
type State string

// The states of tokens.
const (
	// Active tokens work.
	Active State = "active"
	// Expired tokens worked until their expiry.
	Expired State = "expired"
	// Revoked tokens were ended by a person.
	Revoked State = "revoked"
)

// StateAt gives the state at a time. A token that is both revoked and expired is revoked.
func (t *Token) StateAt(now time.Time) State {
	switch {
	case t.RevokedAt != nil:
		return Revoked
	case t.ExpiresAt != nil && !now.Before(*t.ExpiresAt):
		return Expired
	}
	return Active
}

// Actor is the name under which the audit records what is done with the token.
func (t *Token) Actor() string { return "token:" + t.Name }

// New describes a token to create.
type New struct {
	// Name is required: at most 63 of a-z, 0-9, ., - and _.
	Name string

	// Scopes are required. The caller checks that it knows each of them.
	Scopes []string

	// Tenant restricts the token to one tenant; empty is everybody's.
	Tenant string

	// ExpiresAt is when the token stops working; the zero time is never.
	ExpiresAt time.Time

	// Actor is who creates the token, for the audit. Required.
	Actor string
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// check refuses what no token can be.
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
