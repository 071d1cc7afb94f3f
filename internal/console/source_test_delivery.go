package console

import (
	"fmt"
	"net/url"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// testBlock sends a test delivery through a source, or says how to do that elsewhere.
func testBlock(r *request, s *control.SourceDetail) block {
	b := block{
		ID: "test", Title: "Send a test", Text: "The example of the provider, signed with the source's own secret. Its signature is checked and it is recorded as any delivery is.",
		Code: "oncegate send " + shellWord(s.Provider) + " --source " + shellWord(s.Name),
	}
	if s.Configured && r.may(control.Operate) {
		action := "/sources/" + url.PathEscape(s.Name) + "/test"
		b.Forms = []form{
			{Action: action, Button: "Check the secret", Text: "Sign the example and verify it. Nothing is recorded.", Fields: []field{hidden("dry_run", "true")}},
			{
				ID: "send-test", Title: "Send a test delivery", Action: action, Button: "Send it", Closed: true,
				Text:   "It becomes an event, and the routes of this source act on it: their targets get it.",
				Fields: []field{reasonField(), typedField("test")},
			},
		}
	}
	return b
}

// testSource signs a test delivery, sends it unless it is only checked, and shows the result.
func testSource(r *request) (*page, error) {
	ask := control.TestSourceRequest{Source: r.PathValue("name"), DryRun: r.ticked("dry_run")}
	if !ask.DryRun {
		why, err := r.why("test")
		if err != nil {
			return nil, err
		}
		ask.Explained = why
	}
	found, err := call(r, &control.TestSource, ask)
	if err != nil {
		return nil, err
	}
	return testedPage(ask, &found), nil
}

func testedPage(ask control.TestSourceRequest, found *control.TestDelivery) *page {
	p := &page{Title: "Test of " + ask.Source, Back: &link{Text: ask.Source, Href: "/sources/" + url.PathEscape(ask.Source)}}
	refusals := link{Text: "Refusals of this source", Href: to("/refusals", "source", ask.Source)}
	b := block{Facts: facts(is("Sender's id", code(found.EventID)), is("Type", text(found.Type)))}
	switch {
	case ask.DryRun:
		b.Notice = &notice{Kind: "good", Text: "The example verifies with the secret of this source.", Detail: "Nothing was recorded. If deliveries of the provider are refused, the provider signs with another secret, or what is between it and this server changes the body."}
		b.Links = []link{refusals}
	case found.Status >= 200 && found.Status < 300:
		b.Notice = &notice{Kind: "good", Text: fmt.Sprintf("The delivery was answered with %d: %s.", found.Status, words(found.Outcome))}
		if id, err := inbox.ParseID(found.Event); err == nil {
			b.Notice.Detail = "It is an event now. What its routes do with it is on its page."
			b.Links = []link{{Text: "Outcome", Href: eventLink(id)}}
		}
	case found.Status >= 500:
		b.Notice = &notice{Kind: "bad", Text: fmt.Sprintf("The delivery was answered with %d: it was not recorded, and a sender would try again.", found.Status), Detail: "Look at whether this process can keep its promise."}
		b.Links = []link{{Text: "Nodes", Href: "/nodes"}}
	default:
		b.Notice = &notice{Kind: "bad", Text: fmt.Sprintf("The delivery was refused with %d.", found.Status), Detail: "The refusal shows the probable fault."}
		b.Links = []link{refusals}
	}
	p.Blocks = append(p.Blocks, b)
	return p
}
