package console

import (
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// listConflicts shows the payloads that arrived under the id of another event.
func listConflicts(r *request) (*page, error) {
	filter, err := r.conflictFilter()
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListConflicts, control.ListConflictsRequest{
		PageRequest: r.pageRequest(), ConflictFilter: filter, Waiting: r.query("waiting") == "true",
	})
	if err != nil {
		return nil, err
	}
	p := &page{
		Title: "Conflicts", Lead: "Payloads that were delivered under the id of an event that is recorded with another payload. The event is unchanged. A conflict waits for you until you admit or dismiss it, or until it is pruned.",
		Blocks: []block{
			{Filter: r.filterOf(r.textField("source", "Source"), r.textField("tenant", "Tenant"), r.sinceField("since", "Since"), r.checkField("waiting", "Neither admitted nor dismissed"))},
			{Table: conflictTable(r, found, "No event was delivered with another payload that matches.")},
		},
	}
	if r.may(control.Operate) && len(found.Data) > 0 {
		p.Blocks = append(p.Blocks, block{ID: "actions", Links: []link{{Text: "Dismiss these", Href: at("/conflicts/dismiss", r.narrowing(conflictFields...))}}})
	}
	return p, nil
}

// conflictFields are the parameters that narrow conflicts.
var conflictFields = []string{"source", "tenant", "since"}

// conflictFilter reads the parameters that narrow conflicts.
func (r *request) conflictFilter() (f control.ConflictFilter, err error) {
	f = control.ConflictFilter{TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source")}
	f.Since, err = r.since("since")
	return f, err
}

// previewDismiss counts the conflicts that a decision would dismiss.
func previewDismiss(r *request) (*page, error) {
	filter, err := r.conflictFilter()
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.DismissConflicts, control.DismissConflictsRequest{Filter: filter, All: filter == control.ConflictFilter{}, DryRun: true})
	if err != nil {
		return nil, err
	}
	n := strconv.Itoa(found.Matched)
	p := &page{
		Title: "Dismiss conflicts", Back: &link{Text: "Conflicts", Href: at("/conflicts", r.narrowing(conflictFields...))},
		Lead: count(found.Matched, "conflict", "conflicts") + " would wait no more. The payloads stay until they are pruned, and you can still admit them. What came since is not touched.",
	}
	if found.Matched > 0 {
		p.Blocks = append(p.Blocks, block{Forms: []form{{
			Action: "/conflicts/dismiss", Button: "Dismiss", Fields: []field{hidden("seen", string(found.Seen)), hidden("count", n), reasonField(), typedField(n)},
		}}})
	}
	return p, nil
}

// dismissConflicts dismisses the conflicts that a preview found.
func dismissConflicts(r *request) (*page, error) {
	why, err := r.why(r.PostFormValue("count"))
	if err != nil {
		return nil, err
	}
	seen := control.Seen(r.PostFormValue("seen"))
	dismissed, changed := 0, 0
	for step := 0; seen != "" && step < maxSteps; step++ {
		done, err := call(r, &control.DismissConflicts, control.DismissConflictsRequest{Explained: why, Seen: seen})
		if err != nil {
			return nil, err
		}
		dismissed, changed, seen = dismissed+done.Dismissed, changed+done.Changed, done.Seen
	}
	return &page{Title: "Dismissed", Back: &link{Text: "Conflicts", Href: "/conflicts"}, Blocks: []block{{Notice: &notice{
		Kind: "good", Text: count(dismissed, "conflict is dismissed.", "conflicts are dismissed."), Detail: changedText(changed),
	}}}}, nil
}

// dismissConflict dismisses one conflict.
func dismissConflict(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	why, err := r.why("")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.DismissConflicts, control.DismissConflictsRequest{Explained: why, IDs: []inbox.ID{id}}); err != nil {
		return nil, err
	}
	return r.seeOther("/conflicts/"+id.String(), "dismissed")
}

func conflictTable(r *request, found read.Page[read.ConflictRow], empty string) *table {
	return tableOf(r, found, empty, []string{"Last seen", "Conflict", "Type", "Differs in", "Deliveries"}, func(c read.ConflictRow) []cell {
		admitted := number(c.Deliveries)
		if c.AdmittedAs != nil {
			admitted.Detail = "admitted"
		} else if c.DismissedAt != nil {
			admitted.Detail = "dismissed by " + c.DismissedBy
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
	} else if c.DismissedAt != nil {
		state = cell{State: "dismissed"}
	}
	dismissed := instantOf(c.DismissedAt)
	if c.DismissedBy != "" {
		dismissed.Detail = "by " + c.DismissedBy + "; the audit has the reason"
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
		is("Dismissed", dismissed),
	)}, differs)
	if c.AdmittedAs == nil && r.may(control.Operate) {
		b := block{ID: "actions"}
		if c.DismissedAt == nil {
			b.Forms = append(b.Forms, form{
				ID: "dismiss", Title: "Dismiss it", Text: "It waits for nobody any more. You can still admit it.", Action: "/conflicts/" + c.ID.String() + "/dismiss", Button: "Dismiss",
				Closed: true, Fields: []field{reasonField()},
			})
		}
		b.Forms = append(b.Forms, form{
			ID: "admit", Title: "Admit it", Text: "It becomes a separate event with its own effects.", Action: "/conflicts/" + c.ID.String() + "/admit", Button: "Admit",
			Closed: true, Danger: true, Fields: []field{reasonField(), typedField("admit")},
		})
		p.Blocks = append(p.Blocks, b)
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
