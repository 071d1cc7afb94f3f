package console

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/control"
)

// listRefusals shows the deliveries that were not accepted.
func listRefusals(r *request) (*page, error) {
	filter, err := r.refusalFilter()
	if err != nil {
		return nil, err
	}
	groups, err := call(r, &control.GroupRefusals, filter)
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListRefusals, control.ListRefusalsRequest{PageRequest: r.pageRequest(), RefusalFilter: filter, Whole: r.query("whole") == "true"})
	if err != nil {
		return nil, err
	}
	p := &page{
		Title: "Refusals", Lead: "Deliveries that were not accepted, with the probable fault in the configuration. Their senders are not verified.",
		Blocks: []block{
			{Filter: r.filterOf(
				r.textField("source", "Source"), r.choiceField("cause", "Cause", receiver.Causes()...), r.textField("peer", "From"), r.textField("tenant", "Tenant"),
				r.sinceField("since", "Since"), r.checkField("whole", "Kept whole"))},
			{ID: "causes", Title: "By cause", Text: "Of a flood, only a sample is kept and counted here.", Table: refusalGroupTable(r, groups)},
			{ID: "refusals", Title: "One by one", Table: refusalTable(r, found, "No delivery was refused.")},
		},
	}
	if r.may(control.Operate) && len(groups.Data) > 0 {
		p.Blocks[1].Links = []link{{Text: "Acknowledge these, or take it back", Href: at("/refusals/acknowledge", r.narrowing(refusalFields...))}}
	}
	if r.query("after") == "" && filter.Peer == "" {
		p.Live = url.Values{"list": {"refusals"}, "source": {r.query("source")}, "cause": {r.query("cause")}}.Encode()
	}
	return p, nil
}

// refusalFields are the parameters that narrow refusals and their groups.
var refusalFields = []string{"source", "cause", "peer", "tenant", "since"}

// refusalFilter reads the parameters that narrow refusals.
func (r *request) refusalFilter() (f control.RefusalFilter, err error) {
	f = control.RefusalFilter{TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source"), Cause: r.query("cause"), Peer: r.query("peer")}
	f.Since, err = r.since("since")
	return f, err
}

// refusalGroupTable shows refusals by source, cause and peer, and who has acknowledged them.
func refusalGroupTable(r *request, groups read.Page[read.RefusalGroup]) *table {
	return tableOf(r, groups, "No refusal is kept that matches.", []string{"Kept", "Source", "Cause", "From", "First", "Last", "Acknowledged"}, func(g read.RefusalGroup) []cell {
		acknowledged := instantOf(g.AcknowledgedAt)
		if g.AcknowledgedBy != "" {
			acknowledged.Detail = "by " + g.AcknowledgedBy + ": " + g.AcknowledgedWhy
		}
		return []cell{
			counted(g.Count, g.More), {Text: g.Source, Detail: g.Tenant, Href: to("/refusals", "source", g.Source, "cause", g.Cause, "peer", g.Peer)},
			{Text: words(g.Cause), Detail: cut(g.Diagnosis)}, text(or(g.Peer, "unknown")), instant(g.First), instant(g.Last), acknowledged,
		}
	})
}

// previewAcknowledge shows the causes that a decision would acknowledge, and those whose acknowledgement it would take back.
func previewAcknowledge(r *request) (*page, error) {
	filter, err := r.refusalFilter()
	if err != nil {
		return nil, err
	}
	groups, err := call(r, &control.GroupRefusals, filter)
	if err != nil {
		return nil, err
	}
	open, acknowledged := groups, groups
	open.Data, acknowledged.Data = nil, nil
	for _, g := range groups.Data {
		if g.AcknowledgedAt == nil {
			open.Data = append(open.Data, g)
		} else {
			acknowledged.Data = append(acknowledged.Data, g)
		}
	}
	p := &page{
		Title: "Acknowledge refusals", Back: &link{Text: "Refusals", Href: at("/refusals", r.narrowing(refusalFields...))},
		Lead: "Refusals of an acknowledged source, cause and peer wait for nobody, also where more come. Those of another one still wait for you.",
	}
	p.Blocks = append(p.Blocks, acknowledgeBlock(r, open, "Waiting for you", "Acknowledge", ""), acknowledgeBlock(r, acknowledged, "Acknowledged", "Take back", "true"))
	return p, nil
}

// acknowledgeBlock shows causes with the form of a decision about exactly these.
func acknowledgeBlock(r *request, groups read.Page[read.RefusalGroup], title, button, withdraw string) block {
	b := block{Title: title, Table: refusalGroupTable(r, groups)}
	if len(groups.Data) == 0 {
		return b
	}
	causes := make([]decide.RefusalCause, len(groups.Data))
	for i, g := range groups.Data {
		causes[i] = decide.RefusalCause{Source: g.Source, Cause: g.Cause, Peer: g.Peer}
	}
	shown, _ := json.Marshal(causes) // texts only
	n := strconv.Itoa(len(causes))
	b.Forms = []form{{
		Action: "/refusals/acknowledge", Button: button, Text: count(len(causes), "cause", "causes") + ".",
		Fields: []field{hidden("causes", string(shown)), hidden("count", n), hidden("withdraw", withdraw), reasonField(), typedField(n)},
	}}
	return b
}

// acknowledgeRefusals acknowledges the causes that a preview has shown, or takes their acknowledgements back.
func acknowledgeRefusals(r *request) (*page, error) {
	why, err := r.why(r.PostFormValue("count"))
	if err != nil {
		return nil, err
	}
	ask, done := control.AcknowledgeRefusalsRequest{Explained: why, Withdraw: r.ticked("withdraw")}, "acknowledged"
	if ask.Withdraw {
		done = "withdrawn"
	}
	if json.Unmarshal([]byte(r.PostFormValue("causes")), &ask.Causes) != nil {
		return nil, &control.Problem{Code: control.CodeInvalid, Detail: "the causes cannot be read: open the page again"}
	}
	if _, err := call(r, &control.AcknowledgeRefusals, ask); err != nil {
		return nil, err
	}
	return r.seeOther("/refusals", done)
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

func reverifyFacts(found control.ReverifiedRefusals) []fact {
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
