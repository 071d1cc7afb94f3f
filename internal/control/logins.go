package control

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/access/logins"
)

// ListLoginsRequest narrows a list of console logins. A zero field does not narrow it.
type ListLoginsRequest struct {
	PageRequest
	TenantFilter `flag:"--tenant only logins of this tenant"`

	// All includes the logins that have ended. Prune removes a login a day after its end.
	All bool `json:"all,omitempty" flag:"--ended also those that are over"`
}

// ListLogins lists the logins of the console.
var ListLogins = Operation[ListLoginsRequest, read.Page[*logins.Login]]{
	ID: "list_logins", Method: "GET", Path: "/logins", Scope: Admin,
	Summary: "List who is logged in to the console, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListLoginsRequest) (page read.Page[*logins.Login], err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return page, err
		}
		return idPage(r.PageRequest, func(before inbox.ID, limit int) ([]*logins.Login, error) {
			return s.logins().List(ctx, logins.Filter{Tenant: tenant, All: r.All, Before: before, Limit: limit})
		}, func(row **logins.Login) inbox.ID { return (*row).ID })
	},
}

// RevokeLoginRequest names the login that is ended, and why.
type RevokeLoginRequest struct {
	// ID is the id of the login.
	ID string `json:"id"`

	// Reason goes into the audit.
	Reason string `json:"reason"`
}

// RevokeLogin ends a login.
var RevokeLogin = Operation[RevokeLoginRequest, *logins.Login]{
	ID: "revoke_login", Method: "POST", Path: "/logins/{id}/revoke", Scope: Admin,
	Summary: "End a login to the console. Every process notices within seconds.",
	Why:     "why does the login end?", Confirm: "revoke",
	Do: func(ctx context.Context, s *Service, access Access, r RevokeLoginRequest) (*logins.Login, error) {
		id, err := inbox.ParseID(r.ID)
		if err != nil {
			return nil, invalid("%q is not the id of a login", r.ID)
		}
		found, err := s.logins().Read(ctx, id)
		if err == nil && access.Tenant != "" && found.Tenant != access.Tenant {
			err = logins.ErrNotFound
		}
		if err != nil {
			return nil, loginProblem(r.ID, err)
		}
		revoked, err := s.logins().Revoke(ctx, logins.Revocation{ID: id, Actor: access.Actor, Reason: r.Reason})
		if err != nil {
			return nil, loginProblem(r.ID, err)
		}
		return revoked, nil
	},
}

// CreateLoginLinkRequest says what the user of the link may do.
type CreateLoginLinkRequest struct {
	// Scopes are what the login permits. The default is admin.
	Scopes []string `json:"scopes,omitempty" flag:"--scope what the login permits, several separated by commas:"`

	// Tenant limits the login to the objects of one tenant. Empty is no limit, or the caller's own tenant if the caller
	// is limited to one.
	Tenant string `json:"tenant,omitempty" flag:"--tenant the only tenant whose things the login reaches"`

	// Seconds is how long the link is valid, at most 3600. The default is 600.
	Seconds int `json:"seconds,omitempty"`
}

// LoginLink is a link that logs in to the console, once.
type LoginLink struct {
	// Code is the part of the address <console>/login?link=<code>. Only this answer has it; it is not stored.
	Code string `json:"code"`

	// ExpiresAt is when the link expires.
	ExpiresAt time.Time `json:"expires_at"`
}

// CreateLoginLink makes a link that logs in once.
var CreateLoginLink = Operation[CreateLoginLinkRequest, *LoginLink]{
	ID: "create_login_link", Method: "POST", Path: "/logins/links", Scope: Admin, Secret: true,
	Summary: "Make a link that logs in to the console once, within minutes.",
	Do: func(ctx context.Context, s *Service, access Access, r CreateLoginLinkRequest) (*LoginLink, error) {
		tenant, err := TenantFilter{r.Tenant}.narrow(access)
		if err != nil {
			return nil, err
		}
		if len(r.Scopes) == 0 {
			r.Scopes = []string{string(Admin)}
		}
		scopes, err := ParseScopes(r.Scopes)
		if err != nil {
			return nil, invalid("%v", err)
		}
		code, expires, err := s.logins().NewLink(ctx, logins.NewLink{
			Grant: logins.Grant{Actor: linkActor(access.Actor), Scopes: scopes.names(), Tenant: tenant},
			Valid: time.Duration(r.Seconds) * time.Second, By: access.Actor,
		})
		if err != nil {
			return nil, loginProblem("", err)
		}
		return &LoginLink{Code: code, ExpiresAt: expires}, nil
	},
}

// linkActor returns the audit name of a user who logs in with a link. It contains the name of the link's maker, who
// knows to whom they gave it.
func linkActor(maker string) string {
	const prefix, longest = "link:", 128
	if len(prefix)+len(maker) > longest {
		maker = maker[:longest-len(prefix)]
	}
	return prefix + maker
}

// logins returns the store of logins.
func (s *Service) logins() *logins.Store {
	return logins.NewStore(logins.Config{Pool: s.cfg.Pool, Now: s.cfg.Now})
}

// loginProblem converts an error of the store into a Problem.
func loginProblem(ref string, err error) error {
	switch {
	case errors.Is(err, logins.ErrNotFound):
		return &Problem{Code: CodeNotFound, Detail: "there is no login " + ref}
	case errors.Is(err, logins.ErrEnded):
		return &Problem{Code: CodeConflict, Detail: "the login " + ref + " is over already"}
	case errors.Is(err, logins.ErrLinkTime):
		return invalid("%v", logins.ErrLinkTime)
	case errors.Is(err, inbox.ErrUnexplained):
		return invalid("%v", inbox.ErrUnexplained)
	}
	return err
}
