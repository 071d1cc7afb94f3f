package console

import (
	"strings"

	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/control"
)

// listSuppressions shows the addresses to which no message is sent.
func listSuppressions(r *request) (*page, error) {
	since, err := r.since("since")
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListSuppressions, control.ListSuppressionsRequest{PageRequest: r.pageRequest(), Reason: r.query("reason"), Target: r.query("target"), Since: since})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Suppressions", Lead: "Addresses to which no message is sent. A message to one of them is skipped."}
	p.Blocks = append(p.Blocks,
		block{Filter: r.filterOf(r.choiceField("reason", "Reason", suppressionReasons...), r.textField("target", "Target"), r.sinceField("since", "Since"))},
		block{Table: tableOf(r, found, "No address is suppressed.", []string{"Since", "Address", "Reason", "For", "Until"}, func(s control.Suppression) []cell {
			address := cell{Text: or(s.Address, "kept as a hash")}
			if s.PayloadHidden {
				address.Text = "(masked)"
			}
			until := instantOf(s.ExpiresAt)
			if s.ExpiresAt == nil {
				until = text("no end")
			}
			return []cell{instant(s.CreatedAt), address, text(string(s.Reason)), text(or(s.Target, "every target")), until}
		})},
	)
	if r.may(control.ReadPayload) {
		p.Blocks = append(p.Blocks, block{ID: "check", Forms: []form{{Title: "Is an address suppressed?", Action: "/suppressions/check", Button: "Look", Fields: []field{addressField(), {Name: "target", Label: "Target"}}}}})
	}
	if r.may(control.Operate) {
		p.Blocks = append(p.Blocks, block{ID: "actions", Forms: []form{
			{
				Title: "Suppress addresses", Action: "/suppressions", Button: "Suppress", Closed: true, Fields: []field{
					{Name: "addresses", Label: "Addresses, one a line, at most 1,000", Kind: "textarea", Required: true},
					{Name: "as", Label: "Because of", Kind: "select", Options: reasonOptions()}, {Name: "target", Label: "For one target; empty is every one"}, reasonField(),
				},
			},
			{Title: "Write to an address again", Action: "/suppressions/remove", Button: "Remove", Closed: true, Danger: true, Fields: []field{addressField(), {Name: "target", Label: "The entry of a target; empty is the general entry"}, reasonField()}},
		}})
	}
	return p, nil
}

var suppressionReasons = []string{string(suppression.Bounce), string(suppression.Complaint), string(suppression.Unsubscribe), string(suppression.Manual)}

func reasonOptions() []option {
	var out []option
	for _, reason := range suppressionReasons {
		out = append(out, option{Value: reason, Text: reason, Chosen: reason == string(suppression.Manual)})
	}
	return out
}

func addressField() field {
	return field{Name: "address", Label: "Address", Kind: "email", Required: true}
}

// checkSuppression shows whether an address is suppressed. The mail address is never part of a page's
// address.
func checkSuppression(r *request) (*page, error) {
	found, err := call(r, &control.CheckSuppression, control.CheckSuppressionRequest{Address: strings.TrimSpace(r.PostFormValue("address")), Target: strings.TrimSpace(r.PostFormValue("target"))})
	if err != nil {
		return nil, err
	}
	n := &notice{Kind: "good", Text: "Messages to this address are sent."}
	if found.Suppressed {
		n = &notice{Kind: "warn", Text: "No message is sent to this address."}
		if found.Entry != nil {
			n.Detail = "Because of: " + string(found.Entry.Reason) + ", since " + found.Entry.CreatedAt.UTC().Format("2006-01-02 15:04:05 UTC") + "."
		}
	}
	return &page{Title: "Is it suppressed?", Back: &link{Text: "Suppressions", Href: "/suppressions"}, Blocks: []block{{Notice: n}}}, nil
}

// addSuppressions suppresses one or more addresses.
func addSuppressions(r *request) (*page, error) {
	why, err := r.why("")
	if err != nil {
		return nil, err
	}
	addresses := strings.Fields(r.PostFormValue("addresses"))
	terms := control.SuppressionTerms{As: suppression.Reason(r.PostFormValue("as")), Target: strings.TrimSpace(r.PostFormValue("target"))}
	if len(addresses) == 1 {
		_, err = call(r, &control.AddSuppression, control.AddSuppressionRequest{Explained: why, SuppressionTerms: terms, Address: addresses[0]})
	} else {
		_, err = call(r, &control.ImportSuppressions, control.ImportSuppressionsRequest{Explained: why, SuppressionTerms: terms, Addresses: addresses})
	}
	if err != nil {
		return nil, err
	}
	return r.seeOther("/suppressions", "suppressed")
}

// removeSuppression allows messages to an address again.
func removeSuppression(r *request) (*page, error) {
	why, err := r.why("")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.RemoveSuppression, control.RemoveSuppressionRequest{
		Explained: why, Address: strings.TrimSpace(r.PostFormValue("address")), Target: strings.TrimSpace(r.PostFormValue("target")),
	}); err != nil {
		return nil, err
	}
	return r.seeOther("/suppressions", "removed")
}
