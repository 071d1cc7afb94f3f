package console

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// listStreams shows the streams of ordered routes, and the effects that are held for an operator.
func listStreams(r *request) (*page, error) {
	tenant := control.TenantFilter{Tenant: r.query("tenant")}
	found, err := call(r, &control.ListStreams, control.ListStreamsRequest{
		PageRequest: r.pageRequest(), TenantFilter: tenant, Source: r.query("source"), Route: r.query("route"), Key: r.query("key"),
		Blocked: r.query("blocked") == "true", Gap: r.query("gap") == "true",
	})
	if err != nil {
		return nil, err
	}
	undecided, err := call(r, &control.ListUndecided, control.ListUndecidedRequest{TenantFilter: tenant, Source: r.query("source"), Route: r.query("route"), Key: r.query("key")})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Streams", Lead: "All effects of one route with one sequence key follow each other. A stream that waits delays only its own later effects."}
	p.Blocks = append(p.Blocks, block{Filter: r.filterOf(
		r.textField("source", "Source"), r.textField("route", "Route"), r.contentField("key", "Sequence key"), r.textField("tenant", "Tenant"),
		r.checkField("blocked", "Blocked"), r.checkField("gap", "With a gap"))})
	if len(undecided.Data) > 0 {
		p.Blocks = append(p.Blocks, block{ID: "undecided", Title: "Held for you", Text: "Their place in their stream is not known or is taken.", Table: tableOf(r, undecided, "", []string{"Received", "Event", "Route", "Key", "Why"}, func(u control.Undecided) []cell {
			return []cell{instant(u.ReceivedAt), {Text: u.EventID, Href: effectLink(u.Effect), Detail: u.Source}, text(u.Route), keyCell(u.Key, u.PayloadHidden), text(words(string(u.Reason)))}
		})})
	}
	p.Blocks = append(p.Blocks, block{Table: tableOf(r, found, "No stream matches.", []string{"Began", "Stream", "State", "Applied", "Held", "Since"}, func(s control.Stream) []cell {
		name := keyCell(s.Key, s.PayloadHidden)
		name.Text, name.Href, name.Detail = or(name.Text, "stream "+strconv.FormatInt(s.ID, 10)), fmt.Sprintf("/streams/%d", s.ID), s.Source+" · "+s.Route
		since := instant(s.UpdatedAt)
		if s.GapSince != nil {
			since = instant(*s.GapSince)
		}
		return []cell{instant(s.StartedAt), name, state(streamState(&s.StreamRow)), code(s.Applied), heldCell(s.Held), since}
	})})
	return p, nil
}

// keyCell shows a sequence key, which is a value of payloads.
func keyCell(key string, masked bool) cell {
	if masked {
		return cell{Text: "(masked)"}
	}
	return cell{Text: key, Code: true}
}

func heldCell(n int) cell {
	c := number(n)
	if n >= read.MaxHeld {
		c.Text += "+"
	}
	return c
}

// streamState returns the state of a stream in one word.
func streamState(s *read.StreamRow) string {
	switch {
	case s.BlockedBy != nil:
		return "blocked"
	case s.GapSince != nil:
		return "gap"
	case s.Undecided > 0:
		return "undecided"
	case s.InFlight != nil:
		return "claimed"
	case s.Held > 0:
		return "held"
	}
	return "idle"
}

// showStream shows what one stream waits for.
func showStream(r *request) (*page, error) {
	s, err := call(r, &control.ShowStream, control.StreamReference{Ref: r.PathValue("ref")})
	if err != nil {
		return nil, err
	}
	p := streamPage(r, s)
	if !r.may(control.Operate) {
		return p, nil
	}
	b := block{ID: "actions", Title: "Decide"}
	ref := strconv.FormatInt(s.ID, 10)
	for _, one := range []struct {
		operation           *control.Operation[control.DecideStreamRequest, control.StreamPassed]
		path, title, button string
		possible            bool
	}{
		{&control.SkipStream, "skip", "Skip what it waits for", "Skip", s.BlockedBy != nil || s.MissingTo != "" || s.Undecided > 0},
		{&control.UnblockStream, "unblock", "Continue after the effect that blocks it", "Unblock", s.BlockedBy != nil},
		{&control.ApplyStream, "apply", "Let those run that are held for you", "Let them run", s.Undecided > 0},
	} {
		if !one.possible {
			continue
		}
		preview, err := call(r, one.operation, control.DecideStreamRequest{Ref: ref, DryRun: true})
		if err != nil {
			if code := control.ProblemOf(err).Code; code == control.CodeConflict {
				continue // the stream has changed meanwhile
			}
			return nil, err
		}
		b.Forms = append(b.Forms, form{
			ID: one.path, Title: one.title, Text: capital(preview.What) + ".", Action: "/streams/" + ref + "/" + one.path, Button: one.button, Closed: true, Danger: true,
			Fields: []field{hidden("tag", preview.Tag), reasonField(), typedField(one.path)},
		})
	}
	if len(b.Forms) > 0 {
		p.Blocks = slices.Insert(p.Blocks, len(p.Blocks)-1, b) // the command is the last
	}
	return p, nil
}

func streamPage(r *request, s *control.StreamDetail) *page {
	p := &page{Title: "Stream of " + s.Route, Lead: "Source " + s.Source, Back: &link{Text: "Streams", Href: "/streams"}}
	if n := streamNotice(s); n != nil {
		p.Blocks = append(p.Blocks, block{Notice: n})
	}
	gap := cell{}
	if s.MissingFrom != "" {
		gap = code(s.MissingFrom)
		if s.MissingTo != s.MissingFrom {
			gap.Text += " to " + s.MissingTo
		}
	}
	p.Blocks = append(p.Blocks, block{Facts: facts(
		is("State", state(streamState(&s.StreamRow))),
		is("Sequence key", keyCell(s.Key, s.PayloadHidden)),
		is("Applied up to", code(s.Applied)),
		is("Missing", gap),
		is("Gap since", instantOf(s.GapSince)),
		is("Held", heldCell(s.Held)),
		is("Held for you", number(s.Undecided)),
		is("Began", instant(s.StartedAt)),
		is("Moved", instant(s.UpdatedAt)),
		is("Our id", code(strconv.FormatInt(s.ID, 10))),
	)})
	var rows []read.StreamEffect
	for _, e := range []*read.StreamEffect{s.InFlightEffect, s.BlockedByEffect} {
		if e != nil {
			rows = append(rows, *e)
		}
	}
	p.Blocks = append(p.Blocks, block{ID: "next", Title: "In order", Table: tableOf(r, read.Page[read.StreamEffect]{Data: append(rows, s.Waiting...)}, "Nothing waits.", []string{"Number", "Event", "State", "Attempts", "Next attempt"}, func(e read.StreamEffect) []cell {
		return []cell{code(e.Number), {Text: e.EventID, Href: effectLink(e.ID), Detail: e.Type}, {State: e.State, Detail: words(e.Reason)}, number(e.Attempts), instantOf(e.NextAt)}
	})}, block{ID: "copy", Title: "As a command", Code: fmt.Sprintf("oncegate streams show %d", s.ID)})
	return p
}

// streamNotice says what blocks a stream.
func streamNotice(s *control.StreamDetail) *notice {
	switch {
	case s.BlockedByEffect != nil:
		return &notice{
			Kind: "bad", Text: "An effect that is " + words(s.BlockedByEffect.State) + " blocks this stream.",
			Detail: "Replay that effect once its cause is corrected, skip it, or let the others continue without it.",
		}
	case s.GapSince != nil:
		return &notice{Kind: "warn", Text: "This stream waits for a number that did not come.", Detail: "It continues by itself when the number comes. If it never will, give it up."}
	case s.Undecided > 0:
		return &notice{Kind: "warn", Text: "Some effects are held for you.", Detail: "Their place in the stream is not known or is taken."}
	}
	return nil
}

// passStream returns the handler that decides about a stream in the state that its preview showed.
func passStream(operation *control.Operation[control.DecideStreamRequest, control.StreamPassed], word, done string) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		why, err := r.why(word)
		if err != nil {
			return nil, err
		}
		ref := r.PathValue("ref")
		if _, err := call(r, operation, control.DecideStreamRequest{Match: r.match(), Explained: why, Ref: ref}); err != nil {
			return nil, err
		}
		return r.seeOther(to("/streams/"+ref), done)
	}
}
