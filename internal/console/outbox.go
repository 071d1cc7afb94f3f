package console

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// outboxBlock shows the emitted events that are not admitted yet.
func outboxBlock(r *request, found read.Page[read.OutboxRow]) block {
	return block{ID: "outbox", Title: "Emitted and not admitted yet", Text: "A relay admits emitted events within a second. Those that it refuses wait for you.", Table: tableOf(r, unpaged(found), "Nothing waits in the outbox.", []string{"Emitted", "Event", "Type", "Refused because", ""}, func(o read.OutboxRow) []cell {
		decide := cell{}
		if o.Refusal != "" {
			decide = linked("Look at it", outboxLink(o.ID))
		}
		return []cell{instant(o.EmittedAt), {Text: o.EventID, Href: outboxLink(o.ID), Detail: o.Source + " · " + byteSize(int64(o.Bytes))}, text(o.Type), text(words(o.Refusal)), decide}
	})}
}

func outboxLink(id int64) string { return "/outbox/" + strconv.FormatInt(id, 10) }

// outboxRow reads the number of a row from the path.
func (r *request) outboxRow() (int64, error) {
	id, err := strconv.ParseInt(r.PathValue("ref"), 10, 64)
	if err != nil || id < 1 {
		return 0, &control.Problem{Code: control.CodeNotFound, Detail: fmt.Sprintf("%q is no row of the outbox", r.PathValue("ref"))}
	}
	return id, nil
}

// outboxAdvice says why a relay refuses a row of the outbox, and what an operator can do about it.
func outboxAdvice(o *read.OutboxRow) *notice {
	switch o.Refusal {
	case "":
		return &notice{Kind: "info", Text: "A relay is about to admit it."}
	case "source":
		return &notice{Kind: "warn", Text: "No process knows the source " + o.Source + ", or the source takes no emitted events.", Detail: "Configure the source and restart the servers: the event is relayed as soon as one knows it. If the name is a mistake, correct the caller and discard the row."}
	case "too_large":
		return &notice{Kind: "bad", Text: "It is larger than the source takes.", Detail: "Raise the limit of the source, or correct the caller and discard the row."}
	}
	return &notice{Kind: "bad", Text: "Its " + words(o.Refusal) + " can never be admitted.", Detail: "Correct the caller, have it emit the event again, and discard the row."}
}

// showOutbox shows one emitted event that is not admitted yet.
func showOutbox(r *request) (*page, error) {
	id, err := r.outboxRow()
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListOutbox, control.ListOutboxRequest{ID: id})
	if err != nil {
		return nil, err
	}
	if len(found.Data) == 0 {
		return nil, &control.Problem{Code: control.CodeNotFound, Detail: fmt.Sprintf("row %d is not in the outbox: it was admitted or discarded", id)}
	}
	return outboxPage(r, &found.Data[0]), nil
}

func outboxPage(r *request, o *read.OutboxRow) *page {
	path := outboxLink(o.ID)
	p := &page{Title: o.EventID, Lead: join("Emitted", o.Type, "to "+o.Source), Back: &link{Text: "Operations", Href: "/operations#outbox"}}
	p.Blocks = append(p.Blocks, block{Notice: outboxAdvice(o)}, block{Facts: facts(
		is("Source", linked(o.Source, "/sources/"+url.PathEscape(o.Source))), is("Type", text(o.Type)), is("Emitted", instant(o.EmittedAt)), is("Size", text(byteSize(int64(o.Bytes)))), is("Row", number(o.ID)),
	)})
	if r.may(control.ReadPayload) {
		p.Blocks = append(p.Blocks, block{ID: "payload", Title: "Payload", Forms: []form{{Action: path + "/payload", Button: "Download", Text: "The exact bytes. The audit says who took them."}}})
	}
	if o.Refusal != "" && r.may(control.Operate) {
		p.Blocks = append(p.Blocks, block{ID: "actions", Title: "Actions", Forms: []form{{
			Title: "Discard it", Action: path + "/discard", Button: "Discard", Closed: true, Danger: true,
			Text: "The row and its payload are gone. Download the payload first if the event has to be emitted again.", Fields: []field{reasonField(), typedField("discard")},
		}}})
	}
	return p
}

// downloadOutbox downloads the payload of an emitted event.
func downloadOutbox(r *request) (*page, error) {
	id, err := r.outboxRow()
	if err != nil {
		return nil, err
	}
	content, err := call(r, &control.ReadOutboxPayload, control.OutboxReference{ID: id})
	if err != nil {
		return nil, err
	}
	return nil, r.download(fmt.Sprintf("outbox-%d.bin", id), content.Bytes)
}

// discardOutbox removes an emitted event that can never be admitted.
func discardOutbox(r *request) (*page, error) {
	id, err := r.outboxRow()
	if err != nil {
		return nil, err
	}
	why, err := r.why("discard")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.DiscardOutbox, control.DiscardOutboxRequest{Explained: why, ID: id}); err != nil {
		return nil, err
	}
	return r.seeOther("/operations", "outbox")
}
