package console_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// eventCaller answers what the page of an event asks.
type eventCaller struct{ event read.EventDetail }

func (c *eventCaller) Call(_ context.Context, o control.Definition, _, response any) error {
	if response, ok := response.(**read.EventDetail); ok {
		event := c.event
		*response = &event
		return nil
	}
	if o.Describe().ID == "show_payload" {
		return &control.Problem{Code: control.CodeNotFound}
	}
	return nil
}

// A conflict is no duplicate. A duplicate has the time of the last delivery only if no conflict came after it.
func TestTheStoryOfDeliveries(t *testing.T) {
	t.Parallel()
	first, second := now.Add(-2*time.Hour), now.Add(-time.Hour)
	const again, last, blocked = "Delivered again", "The last of", "1 duplicate was blocked"
	for name, c := range map[string]struct {
		deliveries, conflicts int
		delivered, conflict   time.Time
		with, without         []string
	}{
		"one conflict":                 {2, 1, second, second.Add(time.Millisecond), nil, []string{again, blocked}},
		"one duplicate":                {2, 0, second, time.Time{}, []string{again, last, blocked}, nil},
		"a duplicate, then a conflict": {3, 1, second, second.Add(time.Millisecond), []string{again, blocked}, []string{last}},
		"a conflict, then a duplicate": {3, 1, second, first, []string{again, last, blocked}, nil},
	} {
		e := read.EventDetail{EventRow: read.EventRow{EventID: "evt_1", Source: "shop", ReceivedAt: first, Deliveries: c.deliveries, Conflicts: c.conflicts}, LastDeliveryAt: &c.delivered}
		if c.conflicts > 0 {
			e.ConflictAt = &c.conflict
		}
		story := sectionText(t, get(t, newConsole(t, &eventCaller{e}, control.ReadMetadata), "/events/"+someID).Body.String(), "timeline")
		if !strings.Contains(story, "Received and recorded") {
			t.Fatalf("%s: no story in %q", name, story)
		}
		for _, text := range c.with {
			if !strings.Contains(story, text) {
				t.Errorf("%s: %q lacks %q", name, story, text)
			}
		}
		for _, text := range c.without {
			if strings.Contains(story, text) {
				t.Errorf("%s: %q has %q", name, story, text)
			}
		}
	}
}
