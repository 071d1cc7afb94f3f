package console

import (
	"maps"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// includes returns what prune should remove in addition to what is no longer needed, from the
// checkboxes of a form.
func (r *request) includes(value func(string) string) (out []prune.Prunable) {
	for _, one := range prune.Prunables() {
		if value("include_"+string(one)) == "true" {
			out = append(out, one)
		}
	}
	return out
}

// includeFields returns those checkboxes.
func includeFields(ticked []prune.Prunable, kind string) (out []field) {
	for _, one := range []struct {
		name        prune.Prunable
		label, hint string
	}{
		{prune.Dead, "Also dead letters", "past their horizon and undecided"},
		{prune.Indeterminate, "Also unknown outcomes", "their outcome can then never be found out"},
		{prune.Held, "Also held effects", "they never happen"},
		{prune.Replay, "Also what an open replay lists", "the replay leaves it out"},
	} {
		chosen := slices.Contains(ticked, one.name)
		if kind == "hidden" {
			if chosen {
				out = append(out, hidden("include_"+string(one.name), "true"))
			}
			continue
		}
		out = append(out, field{Name: "include_" + string(one.name), Label: one.label, Kind: "checkbox", Hint: one.hint, Checked: chosen})
	}
	return out
}

// previewPrune counts what prune would remove now.
func previewPrune(r *request) (*page, error) {
	include := r.includes(r.query)
	found, err := call(r, &control.RunPrune, control.RunPruneRequest{DryRun: true, Include: include})
	if err != nil {
		return nil, err
	}
	p := &page{
		Title: "Prune now", Back: &link{Text: "Retention", Href: "/retention"},
		Lead: "What is past its horizon and would go. Prune does this by itself once a minute; here it does it now, and may take more.",
	}
	p.Blocks = append(p.Blocks,
		block{ID: "include", Filter: &filter{Action: "/retention/prune", Button: "Count again", Fields: includeFields(include, "checkbox"), Set: len(include) > 0}},
		block{ID: "counts", Title: "What would go", Table: tableOf(r, read.Page[prune.Count]{Data: found.Counts}, "Nothing is past its horizon.", []string{"Table", "Class", "Go", "Stay", "On disk"}, func(c prune.Count) []cell {
			size := cell{}
			if c.Bytes > 0 {
				size = text(byteSize(c.Bytes))
			}
			if c.Archived > 0 {
				size.Detail = groupDigits(c.Archived) + " to the archive first"
			}
			going, stays := number(c.Rows), cell{Text: groupDigits(c.Stays), Number: true, Detail: "still needed"}
			if c.AtLeast {
				going.Text, stays = "at least "+going.Text, text("not counted")
			}
			return []cell{code(c.Table), text(c.Class), going, stays, size}
		})},
		block{ID: "run", Title: "Run it", Forms: []form{{
			Action: "/retention/prune", Button: "Prune", Danger: true, Text: "What goes is gone for good. Keys of events stay until their tombstone's horizon.",
			Fields: append(includeFields(include, "hidden"), reasonField(), typedField("prune")),
		}}},
	)
	return p, nil
}

// runPrune prunes for several seconds, and offers to continue.
func runPrune(r *request) (*page, error) {
	why, err := r.why("prune")
	if err != nil {
		return nil, err
	}
	ask := control.RunPruneRequest{Explained: why, Include: r.includes(r.PostFormValue), Resume: r.ticked("resume")}
	found, err := call(r, &control.RunPrune, ask)
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Pruned", Back: &link{Text: "Retention", Href: "/retention"}}
	report := found.Report
	if report == nil || !report.Obtained {
		p.Blocks = []block{{Notice: &notice{Kind: "info", Text: "Another pass is under way: nothing was done here."}}}
		return p, nil
	}
	removed := count(int(report.Removed()), "row", "rows") + " and " + count(len(report.Partitions), "day of bodies", "days of bodies")
	b := block{Notice: &notice{Kind: "good", Text: removed + " are gone."}, Table: &table{Heads: []string{"Table", "Rows"}}}
	for _, name := range slices.Sorted(maps.Keys(report.Rows)) {
		if report.Rows[name] > 0 {
			b.Table.Rows = append(b.Table.Rows, []cell{code(name), number(report.Rows[name])})
		}
	}
	if len(b.Table.Rows) == 0 {
		b.Table = nil
	}
	switch {
	case report.Archived.Error != "":
		b.Notice.Kind, b.Notice.Detail = "warn", "The archive took no bodies, so they stay in the database: "+report.Archived.Error
	case len(report.Contended) > 0:
		b.Notice.Kind, b.Notice.Detail = "warn", strings.Join(report.Contended, ", ")+" could not be done, because others hold locks. The next pass tries again."
	case !report.Complete:
		b.Notice.Kind, b.Notice.Detail = "warn", "The time of one request is over before everything is done."
		b.Forms = []form{{
			Action: "/retention/prune", Button: "Go on", Fields: append(includeFields(ask.Include, "hidden"), hidden("resume", "true"), hidden("reason", why.Reason), hidden("confirm", "prune")),
		}}
	}
	p.Blocks = []block{b}
	return p, nil
}
