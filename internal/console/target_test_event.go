package console

import (
	"fmt"

	"github.com/oncegate/oncegate/internal/control"
)

// testTargetBlocks send a test event to the target, if it has a test address and the user may send one.
func testTargetBlocks(r *request, t *control.TargetDetail) []block {
	if t.TestURL == "" || !r.may(control.Operate) {
		return nil
	}
	return []block{{
		ID: "test", Title: "Send a test event", Facts: facts(is("Test address", text(t.TestURL))),
		Forms: []form{{
			ID: "send-test", Title: "Send a test event", Action: targetHref(t.Name) + "/test", Button: "Send it", Closed: true,
			Text:   "The request is made as an attempt is. No event is recorded. If the target deduplicates by the key, the same key is sent twice.",
			Fields: []field{reasonField()},
		}},
	}}
}

// testTarget sends a test event to a target and shows what it answered.
func testTarget(r *request) (*page, error) {
	why, err := r.why("")
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.TestTarget, control.TestTargetRequest{Explained: why, Name: r.PathValue("name")})
	if err != nil {
		return nil, err
	}
	return testedTargetPage(&found), nil
}

func testedTargetPage(t *control.TargetTest) *page {
	p := &page{Title: "Test of " + t.Target, Lead: t.Address, Back: &link{Text: t.Target, Href: targetHref(t.Target)}}
	n := &notice{Kind: "good", Text: "The target accepted the test event.", Detail: capital(t.Repeat.Meaning())}
	if !t.Passed {
		n.Kind, n.Text = "bad", "The target did not pass the test."
	}
	signed := "no: the target has no sign"
	if t.Signed {
		signed = "yes"
	}
	b := block{Notice: n, Facts: facts(is("Event id", code(t.ID)), is("Key", code(t.Key)), is("Signed", text(signed)))}
	for i := range t.Answers {
		a := &t.Answers[i]
		name := "Answer"
		if i > 0 {
			name = "Same key again"
		}
		b.Facts = append(b.Facts, facts(is(name, cell{Text: or(a.Code, "none"), Detail: join(a.Cause, fmt.Sprintf("after %d ms", a.Milliseconds), "an effect would be "+a.Outcome)}))...)
		if a.Excerpt != "" {
			b.Facts = append(b.Facts, facts(is("Its body", code(a.Excerpt)))...)
		}
	}
	p.Blocks = append(p.Blocks, b)
	return p
}
