package console

import (
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// id reads Oncegate's id from the path.
func (r *request) id() (inbox.ID, error) { return parseID(r.PathValue("id")) }

// formID reads Oncegate's id from a form.
func (r *request) formID(name string) (inbox.ID, error) { return parseID(r.PostFormValue(name)) }

func parseID(text string) (inbox.ID, error) {
	id, err := inbox.ParseID(text)
	if err != nil {
		return id, &control.Problem{Code: control.CodeNotFound, Detail: fmt.Sprintf("%q is not one of Oncegate's ids; use the search", text)}
	}
	return id, nil
}

// short returns the end of an id, by which people can tell two apart. The beginning is its time.
func short(id inbox.ID) string {
	text := id.String()
	return "…" + text[len(text)-8:]
}

// eventLink and effectLink return the address of the page of an event or effect.
func eventLink(id inbox.ID) string  { return "/events/" + id.String() }
func effectLink(id inbox.ID) string { return "/effects/" + id.String() }
