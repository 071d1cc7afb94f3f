package control

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/access/tokens"
)

// DefaultTokenLife is how long a token is valid if its creation names no expiry.
const DefaultTokenLife = 90 * 24 * time.Hour

// ListTokensRequest narrows a list of tokens. A zero field does not narrow it.
type ListTokensRequest struct {
	PageRequest
	TenantFilter `flag:"--tenant only tokens of this tenant"`

	// All includes the tokens that have expired or were revoked.
	All bool `json:"all,omitempty" flag:"--ended also those that have expired or were revoked"`
}

// ListTokens lists tokens.
var ListTokens = Operation[ListTokensRequest, read.Page[*tokens.Token]]{
	ID: "list_tokens", Method: "GET", Path: "/tokens", Scope: Admin,
	Summary: "List the tokens of the API and the console, newest first; never the tokens themselves.",
	Do: func(ctx context.Context, s *Service, access Access, r ListTokensRequest) (page read.Page[*tokens.Token], err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return page, err
		}
		return idPage(r.PageRequest, func(before inbox.ID, limit int) ([]*tokens.Token, error) {
			return s.tokens().List(ctx, tokens.Filter{Tenant: tenant, All: r.All, Before: before, Limit: limit})
		}, func(row **tokens.Token) inbox.ID { return (*row).ID })
	},
}

// CreateTokenRequest has the name and the permissions of a new token.
type CreateTokenRequest struct {
	// Name identifies the token in lists and in the audit: at most 63 of a-z, 0-9, ., - and _. No other token that is
	// not revoked has it.
	Name string `json:"name"`

	// Scopes are what the token permits.
	Scopes []string `json:"scopes" flag:"--scope what the token permits, several separated by commas:"`

	// Tenant limits the token to the objects of one tenant. Empty is no limit, or the caller's own tenant if the caller
	// is limited to one.
	Tenant string `json:"tenant,omitempty" flag:"--tenant the only tenant whose things the token reaches"`

	// ExpiresAt is when the token stops working. It defaults to 90 days from now.
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	// NeverExpires makes a token without an expiry.
	NeverExpires bool `json:"never_expires,omitempty"`
}

// CreatedToken is a new token.
type CreatedToken struct {
	tokens.Token

	// Text is the token itself. Only this answer has it; it is not stored.
	Text string `json:"token"`
}

// CreateToken creates a token.
var CreateToken = Operation[CreateTokenRequest, *CreatedToken]{
	ID: "create_token", Method: "POST", Path: "/tokens", Scope: Admin, Secret: true,
	Summary: "Create a token of the API and the console. The answer is the only time that it is shown.",
	Do: func(ctx context.Context, s *Service, access Access, r CreateTokenRequest) (*CreatedToken, error) {
		tenant, err := TenantFilter{r.Tenant}.narrow(access)
		if err != nil {
			return nil, err
		}
		scopes, err := ParseScopes(r.Scopes)
		if err != nil {
			return nil, invalid("%v", err)
		}
		switch {
		case r.NeverExpires && !r.ExpiresAt.IsZero():
			return nil, invalid("expires_at and never_expires exclude each other")
		case !r.NeverExpires && r.ExpiresAt.IsZero():
			r.ExpiresAt = s.cfg.Now().Add(DefaultTokenLife)
		}
		text, created, err := s.tokens().Create(ctx, tokens.New{
			Name: r.Name, Scopes: scopes.names(), Tenant: tenant, ExpiresAt: r.ExpiresAt, Actor: access.Actor,
		})
		if err != nil {
			return nil, tokenProblem(r.Name, err)
		}
		return &CreatedToken{Token: *created, Text: text}, nil
	},
}

// RevokeTokenRequest names the token that is revoked, and why.
type RevokeTokenRequest struct {
	// Ref is the id or the name of the token.
	Ref string `json:"ref"`

	// Reason goes into the audit.
	Reason string `json:"reason"`
}

// RevokeToken revokes a token.
var RevokeToken = Operation[RevokeTokenRequest, *tokens.Token]{
	ID: "revoke_token", Method: "POST", Path: "/tokens/{ref}/revoke", Scope: Admin,
	Summary: "Revoke a token and end the console logins that began with it. Every process notices within seconds.",
	Why:     "why does the token end?", Confirm: "revoke",
	Do: func(ctx context.Context, s *Service, access Access, r RevokeTokenRequest) (*tokens.Token, error) {
		found, err := s.token(ctx, access, r.Ref)
		if err != nil {
			return nil, err
		}
		revoked, err := s.tokens().Revoke(ctx, tokens.Revocation{ID: found.ID, Actor: access.Actor, Reason: r.Reason})
		if err != nil {
			return nil, tokenProblem(r.Ref, err)
		}
		return revoked, nil
	},
}

// tokens returns the store of tokens.
func (s *Service) tokens() *tokens.Store { return tokens.NewStore(s.cfg.Pool, s.cfg.Now) }

// token finds a token by its id or its name. A token of another tenant is not found.
func (s *Service) token(ctx context.Context, access Access, ref string) (*tokens.Token, error) {
	var found *tokens.Token
	id, err := inbox.ParseID(ref)
	if err == nil {
		found, err = s.tokens().Read(ctx, id)
	} else {
		found, err = s.tokens().ReadNamed(ctx, ref)
	}
	if err == nil && access.Tenant != "" && found.Tenant != access.Tenant {
		err = tokens.ErrNotFound
	}
	if err != nil {
		return nil, tokenProblem(ref, err)
	}
	return found, nil
}

// tokenProblem converts an error of the store into a Problem.
func tokenProblem(ref string, err error) error {
	switch {
	case errors.Is(err, tokens.ErrNotFound):
		return &Problem{Code: CodeNotFound, Detail: "there is no token " + ref + " that is not revoked"}
	case errors.Is(err, tokens.ErrRevoked):
		return &Problem{Code: CodeConflict, Detail: "the token " + ref + " is revoked already"}
	case errors.Is(err, tokens.ErrNameTaken):
		return &Problem{Code: CodeConflict, Detail: "the name " + ref + " is taken: choose another one, or revoke the token that has it"}
	case errors.Is(err, inbox.ErrUnexplained):
		return invalid("%v", inbox.ErrUnexplained)
	}
	for _, refused := range []error{tokens.ErrName, tokens.ErrScopes, tokens.ErrExpiry} {
		if errors.Is(err, refused) {
			return invalid("%v", refused)
		}
	}
	return err
}

// names returns the names of the scopes.
func (s Scopes) names() []string {
	names := make([]string, len(s))
	for i, scope := range s {
		names[i] = string(scope)
	}
	return names
}
