package app

import (
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
)

// sequenceOf returns the function that reads an event's sequence key and number for a route. It
// returns nil if the route uses what the provider publishes. A value that cannot be read is empty,
// which the gate counts as missing. source is the source's name as keys see it.
func sequenceOf(source string, s *config.Source, r *config.Route) func(a *inbox.Admission, event int) (key, number string, timed bool) {
	o := r.Order
	if s.From != nil && o.Mode == sequence.Arrival && o.Key == nil {
		return laneOf
	}
	if o.Key == nil && o.Number == nil {
		return nil
	}
	headers := mentionsHeaders(o.Key) || mentionsHeaders(o.Number)
	times := publishesTimes(s)
	return func(a *inbox.Admission, event int) (key, number string, timed bool) {
		e := &a.Events[event]
		in := &expression.Input{
			Event: expression.Event{
				ID: e.EventID, Type: e.Type, Source: source, Provider: s.Provider.Name(), OccurredAt: e.OccurredAt, ReceivedAt: a.ReceivedAt,
			},
			Body: s.Provider.Document(a.Body[e.Offset : e.Offset+e.Length]),
		}
		if headers {
			in.Headers = jobs.HeaderTexts(a.Headers)
		}
		key, number, timed = e.SequenceKey, e.SequenceNumber, times
		if o.Key != nil {
			key = nameOf(o.Key, in)
		}
		if o.Number != nil {
			number, timed = placeOf(&o, in)
		}
		return key, number, timed
	}
}

// laneOf returns what the broker of a message keeps in order as its sequence key.
func laneOf(a *inbox.Admission, _ int) (key, number string, timed bool) {
	return jobs.HeaderTexts(a.Headers)[receiver.HeaderLane], "", false
}

func nameOf(p *expression.Program, in *expression.Input) string {
	name, err := p.Name(in)
	if err != nil {
		return ""
	}
	return name
}

// placeOf reads a number exactly, with one spelling for each value. A contiguous sequence accepts
// only whole numbers, because others have no successor.
func placeOf(o *config.Order, in *expression.Input) (number string, timed bool) {
	text, timed, err := o.Number.Number(in)
	if err != nil {
		return "", false
	}
	n, err := sequence.ParseNumber(text)
	if err != nil || o.Mode == sequence.Contiguous && !n.Whole() {
		return "", false
	}
	return n.String(), timed
}

// publishesTimes reports whether the sequence numbers of the source's provider are times.
func publishesTimes(s *config.Source) bool { return s.Provider.Spec().Sequence.Kind == "time" }

// mentionsHeaders reports whether an expression may read a header, because reading all headers for
// each event costs time.
func mentionsHeaders(p *expression.Program) bool {
	return p != nil && strings.Contains(p.String(), "headers")
}
