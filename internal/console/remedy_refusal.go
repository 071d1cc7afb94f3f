package console

import (
	"net/url"

	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers"
)

// refusalBlock shows what an operator changes so that deliveries like a refused one are accepted, with
// links.
func refusalBlock(r *request, refusal *control.Refusal) block {
	b := block{ID: "actions", Title: "What to do"}
	source := "/sources/" + url.PathEscape(refusal.Source)
	switch providers.Reason(refusal.Cause) {
	case providers.ReasonMismatch, providers.ReasonUnsigned, providers.ReasonMalformed:
		b.Text = "Compare the secret of this source with the one at the provider. If they differ, correct it where the source reads it from, and restart the server. " +
			"If they are the same, mend what the diagnosis names, at the provider or between it and this server. A delivery that is not the provider's is rightly refused."
		b.Links = []link{{Text: "Where the secret is read from", Href: source + "#secrets"}, {Text: "Check the secret", Href: source + "#test"}}
	case providers.ReasonStale, providers.ReasonEarly:
		b.Text = "Compare the clock of this server with the sender's. If both are right, an attacker may be sending an old delivery again."
		b.Links = []link{{Text: "Nodes", Href: "/nodes"}, {Text: "The source", Href: source}}
	case "unknown_source":
		b.Text = "Correct the address at the sender, or add the source to the configuration file and restart the server."
		b.Links = []link{{Text: "The sources and their addresses", Href: "/sources"}}
		return b
	default:
		b.Text = "Mend what the diagnosis names, at the sender or in the configuration of the source."
		b.Links = []link{{Text: "The source", Href: source}}
	}
	switch {
	case !refusal.Whole:
		b.Text += " This delivery was not kept whole: have the provider send it again."
	case r.may(control.Operate):
		b.Text += " Then verify the kept deliveries again: those that verify become events."
		b.Links = append(b.Links, link{Text: "Verify the kept refusals of " + refusal.Source + " again", Href: to("/refusals/reverify", "source", refusal.Source)})
	}
	return b
}
