package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/control"
)

// showAccess shows the access of its reader, the tokens, and the logins.
func showAccess(r *request) (*page, error) {
	p := &page{Title: "Access", Lead: "Who may see and do what."}
	p.Blocks = append(p.Blocks, block{ID: "own", Title: "You", Facts: facts(is("Name in the audit", text(r.access.Actor)), is("Scopes", text(r.access.Scopes.String())), is("Tenant", text(or(r.access.Tenant, "everybody's"))))})
	if !r.may(control.Admin) {
		p.Blocks = append(p.Blocks, block{Text: "Tokens and logins are shown to an access with the scope admin."})
		return p, nil
	}
	all := r.query("all") == "true"
	found, err := call(r, &control.ListTokens, control.ListTokensRequest{PageRequest: r.pageRequest(), All: all})
	if err != nil {
		return nil, err
	}
	p.Blocks = append(p.Blocks, block{ID: "tokens", Title: "Tokens", Filter: r.filterOf(r.checkField("all", "Also those that ended")), Table: tableOf(r, found, "There is no token.", []string{"Token", "Scopes", "State", "Used", "Expires"}, func(t *tokens.Token) []cell {
		return []cell{{Text: t.Name, Detail: t.Tenant}, text(strings.Join(t.Scopes, ", ")), state(string(t.State)), instantOf(t.LastUsedAt), instantOf(t.ExpiresAt)}
	}), Forms: []form{
		{Title: "Create a token", Action: "/access/tokens", Button: "Create", Closed: true, Fields: []field{
			{Name: "name", Label: "Name", Required: true}, {Name: "tenant", Label: "Tenant; empty is everybody's"}, {Name: "days", Label: "Works for, in days", Kind: "number", Value: "90", Required: true},
			scopeField(control.ReadMetadata, "everything but content"), scopeField(control.ReadPayload, "content too"),
			scopeField(control.Operate, "replay, discard, resolve, skip"), scopeField(control.Admin, "all of it, erasure and tokens"),
		}},
		{Title: "Revoke a token", Action: "/access/tokens/revoke", Button: "Revoke", Closed: true, Danger: true, Fields: []field{{Name: "ref", Label: "Name of the token", Required: true}, reasonField(), typedField("revoke")}},
	}})
	browsers, err := call(r, &control.ListLogins, control.ListLoginsRequest{All: all})
	if err != nil {
		return nil, err
	}
	p.Blocks = append(p.Blocks, block{ID: "logins", Title: "Logins of the console", Table: tableOf(r, unpaged(browsers), "Nobody is logged in.", []string{"Who", "Scopes", "By", "State", "Used", "Id"}, func(l *logins.Login) []cell {
		return []cell{{Text: l.Actor, Detail: l.Tenant}, text(strings.Join(l.Scopes, ", ")), text(string(l.Method)), state(string(l.State)), instant(l.UsedAt), code(l.ID.String())}
	}), Forms: []form{
		{Title: "Make a link that logs in once", Text: "It is valid for ten minutes. Whoever has it logs in.", Action: "/access/logins/link", Button: "Make it", Closed: true, Fields: []field{
			{Name: "tenant", Label: "Tenant; empty is everybody's"}, scopeField(control.ReadMetadata, ""), scopeField(control.ReadPayload, ""), scopeField(control.Operate, ""), scopeField(control.Admin, ""),
		}},
		{Title: "End a login", Action: "/access/logins/revoke", Button: "End it", Closed: true, Danger: true, Fields: []field{{Name: "id", Label: "Id of the login", Required: true}, reasonField(), typedField("end")}},
	}})
	return p, nil
}

// createToken makes a token and shows it once.
func createToken(r *request) (*page, error) {
	days, err := strconv.Atoi(strings.TrimSpace(r.PostFormValue("days")))
	if err != nil || days < 1 || days > 3650 {
		return nil, &control.Problem{Code: control.CodeInvalid, Detail: "a token works for 1 to 3650 days"}
	}
	ask := control.CreateTokenRequest{Name: strings.TrimSpace(r.PostFormValue("name")), Tenant: strings.TrimSpace(r.PostFormValue("tenant")), ExpiresAt: r.now.Add(time.Duration(days) * 24 * time.Hour)}
	if ask.Scopes, err = r.scopes(); err != nil {
		return nil, err
	}
	created, err := call(r, &control.CreateToken, ask)
	if err != nil {
		return nil, err
	}
	return &page{Title: "Token " + created.Name, Back: &link{Text: "Access", Href: "/access"}, Blocks: []block{
		{Notice: &notice{Kind: "warn", Text: "Copy it now: it is not shown again.", Detail: fmt.Sprintf("It works for %d days with %s.", days, strings.Join(created.Scopes, ", "))}, Code: created.Text},
	}}, nil
}

// revokeToken revokes a token.
func revokeToken(r *request) (*page, error) {
	why, err := r.why("revoke")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.RevokeToken, control.RevokeTokenRequest{Ref: strings.TrimSpace(r.PostFormValue("ref")), Reason: why.Reason}); err != nil {
		return nil, err
	}
	return r.seeOther("/access", "revoked")
}

// revokeLogin ends a login.
func revokeLogin(r *request) (*page, error) {
	why, err := r.why("end")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.RevokeLogin, control.RevokeLoginRequest{ID: strings.TrimSpace(r.PostFormValue("id")), Reason: why.Reason}); err != nil {
		return nil, err
	}
	return r.seeOther("/access", "revoked")
}

// scopeField offers a scope. The least powerful one is ticked.
func scopeField(scope control.Scope, hint string) field {
	return field{Name: string(scope), Label: string(scope), Kind: "checkbox", Hint: hint, Checked: scope == control.ReadMetadata}
}

// scopes returns the ticked scopes. At least one is required.
func (r *request) scopes() (out []string, err error) {
	for _, scope := range control.KnownScopes() {
		if r.ticked(string(scope)) {
			out = append(out, string(scope))
		}
	}
	if len(out) == 0 {
		return nil, &control.Problem{Code: control.CodeInvalid, Detail: "tick at least one scope"}
	}
	return out, nil
}

// createLink makes a link that logs in once, and shows it once.
func createLink(r *request) (*page, error) {
	scopes, err := r.scopes()
	if err != nil {
		return nil, err
	}
	made, err := call(r, &control.CreateLoginLink, control.CreateLoginLinkRequest{Scopes: scopes, Tenant: strings.TrimSpace(r.PostFormValue("tenant"))})
	if err != nil {
		return nil, err
	}
	return &page{Title: "A link that logs in once", Back: &link{Text: "Access", Href: "/access"}, Blocks: []block{
		{Facts: []fact{is("Valid until", instant(made.ExpiresAt)), is("Scopes", text(strings.Join(scopes, ", ")))}},
		{Notice: &notice{Kind: "warn", Text: "Copy it now: it is not shown again."}, Code: r.origin() + to("/login", "link", made.Code)},
	}}, nil
}
