package control

import (
	"context"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
)

// ListAuditRequest narrows a list of the audit. A zero field does not narrow it.
type ListAuditRequest struct {
	PageRequest

	// Actor is who did it. It must match exactly, but token:NAME selects every token that had the name; the id of one is
	// after a slash.
	Actor string `json:"actor,omitempty" flag:"--actor only this actor"`

	// Action is what was done, such as effect.resolve.done.
	Action string `json:"action,omitempty" flag:"--action only this action, such as effect.resolve.done"`

	// Object is what it was done to, such as effect/<id> or event/<id>. A caller limited to a tenant must name one of
	// its events or effects.
	Object string `json:"object,omitempty" flag:"--object only this object, such as effect/<id>"`

	// Since is the earliest time.
	Since time.Time `json:"since,omitzero" flag:"--since only those since"`
}

// ListAudit lists who did what, and why.
var ListAudit = Operation[ListAuditRequest, read.Page[read.AuditRow]]{
	ID: "list_audit", Method: "GET", Path: "/audit", Scope: ReadMetadata,
	Summary: "List who did what to what, and why, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListAuditRequest) (page read.Page[read.AuditRow], err error) {
		if err := s.mayAudit(ctx, access, r.Object); err != nil {
			return page, err
		}
		return readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.AuditRow], error) {
			return s.lister.Audit(ctx, read.AuditFilter{Actor: r.Actor, Action: r.Action, Object: r.Object, Since: r.Since, Cursor: at.Cursor, Limit: at.Limit})
		})
	},
}

// mayAudit refuses to a caller limited to a tenant everything but the entries of its events and effects.
func (s *Service) mayAudit(ctx context.Context, access Access, object string) error {
	if access.Tenant == "" {
		return nil
	}
	kind, ref, _ := strings.Cut(object, "/")
	id, err := inbox.ParseID(ref)
	switch {
	case err != nil:
	case kind == "event":
		_, err := s.event(ctx, access, ref)
		return err
	case kind == "effect":
		_, err := s.effect(ctx, access, id)
		return err
	}
	return access.untenanted("entries of the audit other than those of an event/<id> or effect/<id>")
}
