package cli

import (
	"strings"

	"github.com/oncegate/oncegate/inbox/read"
)

// labelTexts returns the labels of an event in one line.
func labelTexts(labels []read.EventLabel) string {
	out := make([]string, 0, len(labels))
	for _, l := range labels {
		switch {
		case l.Hashed:
			out = append(out, l.Name+" (hashed)")
		case l.PayloadHidden:
			out = append(out, l.Name+" (left out)")
		default:
			out = append(out, l.Name+"="+l.Value)
		}
	}
	return strings.Join(out, ", ")
}

// placeText returns the event's place among its neighbors: "fulfil 7, after 5 evt_5 (done, 1
// missing), before 8 evt_8 (held)".
func placeText(s *read.StreamPlace) string {
	parts := []string{s.Route + " " + s.Number}
	for _, side := range []struct {
		word, missing string
		event         *read.Neighbour
	}{{"after", s.MissingBefore, s.Before}, {"before", s.MissingAfter, s.After}} {
		if side.event == nil {
			continue
		}
		state := side.event.State
		if side.missing != "" {
			state += ", " + side.missing + " missing"
		}
		parts = append(parts, side.word+" "+side.event.Number+" "+side.event.EventID+" ("+state+")")
	}
	return strings.Join(parts, ", ")
}
