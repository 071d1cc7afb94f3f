package console

import (
	"strconv"

	"github.com/oncegate/oncegate/inbox/read"
)

// labelCells returns the labels of an event. Each links to the events with the same label.
func labelCells(labels []read.EventLabel) []cell {
	out := make([]cell, 0, len(labels))
	for i := range labels {
		c := text(labels[i].String())
		if labels[i].Value != "" {
			c.Href = to("/events", "label", c.Text)
		}
		out = append(out, c)
	}
	return out
}

// sequenceBlock shows an event between its neighbours in the streams of ordered routes.
func sequenceBlock(r *request, e *read.EventDetail) block {
	return block{ID: "sequence", Title: "In its sequence", Table: tableOf(r, read.Page[read.StreamPlace]{Data: e.Sequence}, "", []string{"Stream", "Before", "This event", "After"}, func(s read.StreamPlace) []cell {
		return []cell{
			linked(s.Route, streamLink(s.Stream)), neighbourCell(s.Before, s.MissingBefore), text("number " + s.Number), neighbourCell(s.After, s.MissingAfter),
		}
	})}
}

// neighbourCell shows the event before or after another one, and how many numbers are missing
// between the two.
func neighbourCell(n *read.Neighbour, missing string) cell {
	gap := ""
	if missing != "" {
		gap = missing + " missing between"
	}
	if n == nil {
		return cell{Text: "none recorded", Detail: gap}
	}
	return cell{Text: n.Number + " · " + n.EventID, Href: eventLink(n.Event), Detail: join(n.Type, words(n.State), gap)}
}

func streamLink(id int64) string { return "/streams/" + strconv.FormatInt(id, 10) }
