package console

import (
	"strings"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// listConflicts shows the payloads that arrived under the id of another event.
func listConflicts(r *request) (*page, error) {
	since, err := r.since("since")
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListConflicts, control.ListConflictsRequest{
		PageRequest: r.pageRequest(), TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source"), Since: since,
	})
	if err != nil {
		return nil, err
	}
	return &page{
		Title: "Conflicts", Lead: "Payloads that were delivered under the id of an event that is recorded with another payload. The event is unchanged. Oncegate keeps a conflict until you admit it or until it is pruned.",
		Blocks: []block{
			{Filter: r.filterOf(r.textField("source", "Source"), r.textField("tenant", "Tenant"), r.sinceField("since", "Since"))},
			{Table: conflictTable(r, found, "No event was delivered with another payload.")},
		},
	}, nil
}

func conflictTable(r *request, found read.Page[read.ConflictRow], empty string) *table {
	return tableOf(r, found, empty, []string{"Last seen", "Conflict", "Type", "Differs in", "Deliveries"}, func(c read.ConflictRow) []cell {
		admitted := number(c.Deliveries)
		if c.AdmittedAs != nil {
			admitted.Detail = "admitted"
		}
		return []cell{
			instant(c.LastSeenAt), {Text: c.EventID, Href: "/conflicts/" + c.ID.String(), Detail: join(c.Source, c.Tenant)}, text(c.Type),
			code(differingPaths(&c, "not JSON")), admitted,
		}
	})
}

// showConflict shows one conflict with the differences.
func showConflict(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	c, err := call(r, &control.ShowConflict, control.IDRequest{ID: id})
	if err != nil {
		return nil, err
	}
	payload, missing, err := r.payload("conflict", id)
	if err != nil {
		return nil, err
	}
	differs := block{ID: "changes", Title: "What differs", Text: "The paths are " + differingPaths(c, "not known: one of the two is not JSON") + "."}
	if r.may(control.ReadPayload) {
		differs.Forms = []form{{Action: "/conflicts/" + id.String() + "/changes", Button: "Show the values", Text: "What is secret stays masked. The audit says who looked."}}
	}
	return conflictPage(r, c, differs, payload, missing), nil
}

// differingPaths are the paths in which a conflict differs from its event; otherwise says why there are none.
func differingPaths(c *read.ConflictRow, otherwise string) string {
	if c.PayloadHidden {
		return "hidden: they need read-payload"
	}
	return or(strings.Join(c.Paths, ", "), otherwise)
}

// showChanges shows the differences between the payload of a conflict and the payload of its event.
func showChanges(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	c, err := call(r, &control.ShowConflict, control.IDRequest{ID: id})
	if err != nil {
		return nil, err
	}
	changes, err := call(r, &control.ListConflictChanges, control.IDRequest{ID: id})
	if err != nil {
		return nil, err
	}
	return &page{
		Title: "What differs in " + c.EventID, Lead: "First is the event, second the payload that conflicts with it.",
		Back: &link{Text: "Conflict of " + c.EventID, Href: "/conflicts/" + id.String()}, Blocks: []block{changeBlock(changes.Data)},
	}, nil
}

func conflictPage(r *request, c *read.ConflictRow, differs block, payload *control.Payload, missing string) *page {
	p := &page{
		Title: "Conflict of " + c.EventID, Lead: "This payload came under the id of another payload.",
		Back: &link{Text: "Conflicts", Href: "/conflicts"},
	}
	state := cell{State: "waiting"}
	if c.AdmittedAs != nil {
		state = cell{State: "admitted"}
	}
	admitted := cell{}
	if c.AdmittedAs != nil {
		admitted = linked(c.AdmittedAs.String(), eventLink(*c.AdmittedAs))
	}
	p.Blocks = append(p.Blocks, block{Facts: facts(
		is("State", state),
		is("Event", linked(c.Source+"/"+c.EventID, eventLink(c.Event))),
		is("Type", text(c.Type)),
		is("First seen", instant(c.FirstSeenAt)),
		is("Last seen", instant(c.LastSeenAt)),
		is("Deliveries", number(c.Deliveries)),
		is("Tenant", text(c.Tenant)),
		is("Payload", cell{Text: lengthText(c.Bytes, c.PayloadHidden), Detail: hashText(c.SHA256)}),
		is("Admitted as", admitted),
		is("Admitted", instantOf(c.AdmittedAt)),
	)}, differs)
	if c.AdmittedAs == nil && r.may(control.Operate) {
		p.Blocks = append(p.Blocks, block{ID: "actions", Forms: []form{{
			ID: "admit", Title: "Admit it", Text: "It becomes a separate event with its own effects.", Action: "/conflicts/" + c.ID.String() + "/admit", Button: "Admit",
			Closed: true, Danger: true, Fields: []field{reasonField(), typedField("admit")},
		}}})
	}
	p.Blocks = append(p.Blocks, payloadBlocks(r, payload, missing, "/conflicts/"+c.ID.String())...)
	return p
}

// admitConflict admits a conflicting payload as an event.
func admitConflict(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	why, err := r.why("admit")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.AdmitConflict, control.AdmitConflictRequest{Explained: why, ID: id}); err != nil {
		return nil, err
	}
	return r.seeOther("/conflicts/"+id.String(), "admitted")
}
