package console

import (
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/internal/control"
)

// pausedText says since when something is paused, by whom and why.
func pausedText(p *pause.Pause) string {
	return "paused since " + attention.Clock(p.Since) + " by " + p.By + ": " + p.Reason
}

// pausedHref is the page on which a pause is ended.
func pausedHref(p *pause.Pause) string {
	switch p.Kind {
	case pause.Source:
		return "/sources/" + url.PathEscape(p.Name)
	case pause.Route:
		source, route, _ := strings.Cut(p.Name, "/")
		return routeHref(source, route)
	case pause.Target:
		return targetHref(p.Name)
	}
	return "/sources"
}

func routeHref(source, route string) string {
	return "/routes/" + url.PathEscape(source) + "/" + url.PathEscape(route)
}

func targetHref(name string) string { return "/targets/" + url.PathEscape(name) }

// pauseBlocks say that something is paused and by whom, and offer to end the pause, or to begin one. action is the address of its page,
// and means says what a pause means for it.
func pauseBlocks(r *request, thing pause.Thing, paused *pause.Pause, action, means string) []block {
	b := block{ID: "pause"}
	if paused != nil {
		b.Notice = &notice{Kind: "warn", Text: paused.Words() + " is " + pausedText(paused)}
	}
	switch own := paused != nil && paused.Thing == thing; {
	case !r.may(control.Operate):
	case own:
		b.Forms = []form{{
			ID: "resume", Title: "Resume it", Action: action + "/resume", Button: "Resume", Closed: true,
			Text: "All processes know of it within two seconds.", Fields: []field{reasonField()},
		}}
	default:
		b.Forms = []form{{ID: "pause-form", Title: "Pause it", Action: action + "/pause", Button: "Pause", Closed: true, Text: means, Fields: []field{reasonField()}}}
	}
	if b.Notice == nil && b.Forms == nil {
		return nil
	}
	return []block{b}
}

const (
	sourcePauseMeans = "It answers 503 to all deliveries, so that the sender keeps them. Nothing is recorded. What is recorded already is carried out."
	effectPauseMeans = "The effects wait. They keep their attempts and their order, and become no dead letters because of the pause. A replay waits too."
)

// pauseNamed returns the handler that pauses or resumes a source or a target, and goes back to its page.
func pauseNamed(operation *control.Operation[control.PauseRequest, control.PauseState], pages, done string) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		why, err := r.why("")
		if err != nil {
			return nil, err
		}
		name := r.PathValue("name")
		if _, err := call(r, operation, control.PauseRequest{Explained: why, Name: name}); err != nil {
			return nil, err
		}
		return r.seeOther(pages+url.PathEscape(name), done)
	}
}

// pauseRoute returns the handler that pauses or resumes a route, and goes back to its page.
func pauseRoute(operation *control.Operation[control.PauseRouteRequest, control.PauseState], done string) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		why, err := r.why("")
		if err != nil {
			return nil, err
		}
		source, route := r.PathValue("source"), r.PathValue("route")
		if _, err := call(r, operation, control.PauseRouteRequest{Explained: why, Source: source, Route: route}); err != nil {
			return nil, err
		}
		return r.seeOther(routeHref(source, route), done)
	}
}
