package console

import (
	"github.com/oncegate/oncegate/internal/control"
)

// listNotifications shows what operators are told, and offers to send a test message.
func listNotifications(r *request) (*page, error) {
	found, err := call(r, &control.ListNotifications, control.NoRequest{})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Notifications", Lead: "What waits for an operator, and when operators were told. The start page leads to each of it.", Refresh: 20}
	header := []string{"What", "First seen", "Told", "Gone"}
	p.Blocks = append(p.Blocks, block{Table: tableOf(r, found, "Nothing waits, or the configuration has no notifications.source.", header, func(n control.Notification) []cell {
		told := instantOf(n.ToldAt)
		if n.ToldAt == nil {
			told = text("not yet")
		}
		return []cell{linked(n.Text, needs[n.Kind].href), instant(n.OpenedAt), told, instantOf(n.GoneAt)}
	})})
	if r.may(control.Operate) {
		p.Blocks = append(p.Blocks, block{ID: "test", Title: "Send a test message", Forms: []form{{
			ID: "send-test", Title: "Send a test message", Action: "/notifications/test", Button: "Send it", Closed: true,
			Text:   "It goes the way that notifications take: to their source, and by its routes to their targets.",
			Fields: []field{reasonField()},
		}}})
	}
	return p, nil
}

// testNotifications sends a test message and says where to look for it.
func testNotifications(r *request) (*page, error) {
	why, err := r.why("")
	if err != nil {
		return nil, err
	}
	sent, err := call(r, &control.TestNotifications, control.TestNotificationsRequest{Explained: why})
	if err != nil {
		return nil, err
	}
	return &page{Title: "A test message", Back: &link{Text: "Notifications", Href: "/notifications"}, Blocks: []block{{
		Notice: &notice{Kind: "good", Text: "The test message was emitted.", Detail: "It is recorded as an event within about a second. The effects of the event show whether it arrived."},
		Facts:  facts(is("Source", text(sent.Source)), is("Event id", code(sent.EventID))),
		Links:  []link{{Text: "Events of the source", Href: to("/events", "source", sent.Source)}},
	}}}, nil
}
