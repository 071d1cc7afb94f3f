package console

import (
	"fmt"
	"net/url"

	"github.com/oncegate/oncegate/internal/control"
)

// storedBlocks says since when a source is in the database and who serves its last change, and offers to disable or enable it. d is nil for
// a source of the file.
func storedBlocks(r *request, d *control.SourceDefinition) []block {
	if d == nil {
		return nil
	}
	served := "every server"
	if d.Behind > 0 {
		served = fmt.Sprintf("%d of %d servers; see the nodes", d.Processes-d.Behind, d.Processes)
	}
	b := block{ID: "definition", Title: "Defined in the database", Text: "oncegate sources update changes it.", Facts: facts(
		is("Changed", instant(d.UpdatedAt)), is("By", text(d.By)), is("Reason", text(d.Reason)), is("Served by", text(served)),
	)}
	page := "/sources/" + url.PathEscape(d.Name)
	switch {
	case !r.may(control.Admin):
	case d.Enabled:
		b.Forms = []form{{
			ID: "disable", Title: "Disable it", Action: page + "/disable", Button: "Disable", Closed: true,
			Text: "It answers 404, as if there were no such source, and senders may give up. A pause keeps the events at the sender instead.", Fields: []field{reasonField()},
		}}
	default:
		b.Forms = []form{{ID: "enable", Title: "Enable it", Action: page + "/enable", Button: "Enable", Closed: true, Text: "It takes deliveries again.", Fields: []field{reasonField()}}}
	}
	return []block{b}
}

// enableNamed returns the handler that enables or disables a source of the database, and goes back to its page.
func enableNamed(operation *control.Operation[control.EnableSourceRequest, control.SourceDefinition], done string) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		why, err := r.why("")
		if err != nil {
			return nil, err
		}
		name := r.PathValue("name")
		if _, err := call(r, operation, control.EnableSourceRequest{Explained: why, Name: name}); err != nil {
			return nil, err
		}
		return r.seeOther("/sources/"+url.PathEscape(name), done)
	}
}
