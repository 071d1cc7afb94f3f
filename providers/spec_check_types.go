package providers

import "fmt"

// types checks the list of the sender's event types.
func (d *specReader) types(t *TypesSpec) {
	if (t.Source == "") != (len(t.Known) == 0) {
		d.at("types", "needs both source and known: a list is believed because the sender publishes it")
		return
	}
	if t.Source != "" {
		d.link("types.source", t.Source)
	}
	seen := map[string]bool{}
	for i, name := range t.Known {
		switch where := fmt.Sprintf("types.known[%d]", i); {
		case name == "" || len(name) > maxID:
			d.at(where, "is not the name of an event type, which has 1 to %d bytes", maxID)
		case seen[name]:
			d.at(where, "%q is in the list twice", name)
		}
		seen[name] = true
	}
}
