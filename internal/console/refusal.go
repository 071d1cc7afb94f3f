package console

import (
	"maps"
	"net/url"
	"slices"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/control"
)

// listRefusals shows the deliveries that were not accepted.
func listRefusals(r *request) (*page, error) {
	since, err := r.since("since")
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListRefusals, control.ListRefusalsRequest{
		PageRequest: r.pageRequest(), TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source"), Cause: r.query("cause"),
		Whole: r.query("whole") == "true", Since: since,
	})
	if err != nil {
		return nil, err
	}
	p := &page{
		Title: "Refusals", Lead: "Deliveries that were not accepted, with the probable fault in the configuration. Their senders are not verified.",
		Blocks: []block{
			{Filter: r.filterOf(
				r.textField("source", "Source"), r.choiceField("cause", "Cause", receiver.Causes()...), r.textField("tenant", "Tenant"),
				r.sinceField("since", "Since"), r.checkField("whole", "Kept whole"))},
			{Table: refusalTable(r, found, "No delivery was refused.")},
		},
	}
	if r.query("after") == "" {
		p.Live = url.Values{"list": {"refusals"}, "source": {r.query("source")}, "cause": {r.query("cause")}}.Encode()
	}
	return p, nil
}

func refusalTable(r *request, found read.Page[read.RefusalRow], empty string) *table {
	return tableOf(r, found, empty, []string{"Received", "Source", "Cause", "Diagnosis", "From"}, func(row read.RefusalRow) []cell {
		return []cell{
			instant(row.ReceivedAt), {Text: row.Source, Detail: row.Tenant}, text(words(row.Cause)), linked(or(row.Diagnosis, "No diagnosis."), "/refusals/"+row.ID.String()),
			{Text: row.Remote, Detail: row.Method + " " + cut(row.URL)},
		}
	})
}

// showRefusal shows one refused delivery with its diagnosis.
func showRefusal(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	refusal, err := call(r, &control.ShowRefusal, control.IDRequest{ID: id})
	if err != nil {
		return nil, err
	}
	payload, missing, err := r.payload("refusal", id)
	if err != nil {
		return nil, err
	}
	return refusalPage(r, refusal, payload, missing), nil
}

func refusalPage(r *request, refusal *control.Refusal, payload *control.Payload, missing string) *page {
	p := &page{
		Title: "Refused by " + refusal.Source, Back: &link{Text: "Refusals of " + refusal.Source, Href: to("/refusals", "source", refusal.Source)},
		Blocks: []block{
			{Notice: &notice{Kind: "bad", Text: or(refusal.Diagnosis, "No diagnosis."), Detail: "Cause: " + words(refusal.Cause)}},
			{Facts: facts(
				is("Received", instant(refusal.ReceivedAt)),
				is("Source", linked(refusal.Source, "/sources/"+url.PathEscape(refusal.Source))),
				is("Provider", linked(refusal.Provider, "/providers/"+url.PathEscape(refusal.Provider))),
				is("Tenant", text(refusal.Tenant)),
				is("Request", code(refusal.Method+" "+cut(refusal.URL))),
				is("From", text(refusal.Remote)),
				is("Size", text(byteSize(int64(refusal.Size)))),
				is("Our id", code(refusal.ID.String())),
			)},
		},
	}
	if payload == nil && len(refusal.Headers) > 0 {
		h := block{ID: "headers", Title: "Headers"}
		for _, name := range slices.Sorted(maps.Keys(refusal.Headers)) {
			h.Facts = append(h.Facts, is(name, text("(masked)")))
		}
		p.Blocks = append(p.Blocks, h)
	}
	p.Blocks = append(p.Blocks, refusalBlock(r, refusal))
	p.Blocks = append(p.Blocks, payloadBlocks(r, payload, missing, "/refusals/"+refusal.ID.String())...)
	p.Blocks = append(p.Blocks, block{ID: "copy", Title: "As a command", Code: "oncegate refusals show " + refusal.ID.String()})
	return p
}

// previewReverify shows the result of verifying the kept refusals of a source with today's secrets.
func previewReverify(r *request) (*page, error) {
	source := r.query("source")
	found, err := call(r, &control.ReverifyRefusals, control.ReverifyRefusalsRequest{Source: source, DryRun: true})
	if err != nil {
		return nil, err
	}
	p := &page{
		Title: "Verify refusals again", Lead: "Deliveries to " + source + " that were kept whole, with today's secrets.", Back: &link{Text: "Refusals of " + source, Href: to("/refusals", "source", source)},
		Blocks: []block{{Facts: reverifyFacts(found)}},
	}
	if found.Verified > 0 {
		p.Blocks = append(p.Blocks, block{Forms: []form{{
			Action: "/refusals/reverify", Button: "Admit those that verify", Danger: true, Fields: []field{hidden("source", source), reasonField(), typedField("reverify")},
		}}})
	} else {
		why := "Nothing that was refused is kept whole: have the provider send it again."
		if found.Examined > 0 {
			why = "Nothing verifies yet. Correct the secret of the source, or what the diagnosis names, and restart the server: it reads its configuration when it starts."
		}
		p.Blocks = append(p.Blocks, block{
			Notice: &notice{Kind: "info", Text: why},
			Links:  []link{{Text: "Where the secret is read from", Href: "/sources/" + url.PathEscape(source) + "#secrets"}, {Text: "The refusals and their diagnoses", Href: to("/refusals", "source", source)}},
		})
	}
	return p, nil
}

func reverifyFacts(found control.ReverifyRefusalsResponse) []fact {
	return []fact{
		is("Looked at", number(found.Examined)), is("Verify today", number(found.Verified)), is("Still do not", number(found.Refused)),
		is("New events", number(found.Recorded)), is("Known already", number(found.Duplicates)), is("Conflicts", number(found.Conflicts)), is("Unusable", number(found.Unusable)),
	}
}

// reverify admits the kept refusals of a source that verify today.
func reverify(r *request) (*page, error) {
	why, err := r.why("reverify")
	if err != nil {
		return nil, err
	}
	source := r.PostFormValue("source")
	done, err := call(r, &control.ReverifyRefusals, control.ReverifyRefusalsRequest{Explained: why, Source: source})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Verified again", Back: &link{Text: "Refusals of " + source, Href: to("/refusals", "source", source)}, Blocks: []block{{Facts: reverifyFacts(done)}}}
	if done.Recorded > 0 {
		p.Blocks = append(p.Blocks, block{Links: []link{{Text: "Events of " + source, Href: to("/events", "source", source)}}})
	}
	if done.Next != nil {
		p.Blocks = append(p.Blocks, block{Text: "There are more than fit into one step: verify again to continue.", Links: []link{{Text: "Continue", Href: to("/refusals/reverify", "source", source)}}})
	}
	return p, nil
}
