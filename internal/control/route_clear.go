package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
)

// DiscardRouteRequest names a removed route whose waiting effects are discarded.
type DiscardRouteRequest struct {
	Explained

	// Source and Route identify the route.
	Source string `json:"source"`
	Route  string `json:"route"`

	// Seen is what a dry run found. It is required without DryRun.
	Seen Seen `json:"seen,omitempty"`

	// Max is the largest number that a dry run may find; it is refused if it finds more. It defaults to 1,000 and is at
	// most 100,000.
	Max int `json:"max,omitempty" flag:"--max do nothing if more match"`

	// DryRun counts the waiting effects and changes nothing.
	DryRun bool `json:"dry_run,omitempty" flag:"--dry-run count them and change nothing"`
}

// MoveRouteRequest names the route to which the effects of a removed route move.
type MoveRouteRequest struct {
	DiscardRouteRequest

	// To is a route of the same source, without an order.
	To string `json:"to" flag:"--to the route of the same source that carries them out"`
}

// ClearedRoute is the result for the effects that wait for a route.
type ClearedRoute struct {
	// Matched is how many effects wait, or how many Seen named. Cleared is how many of them were moved or are now
	// skipped. Stay is how many were not changed, because they changed meanwhile, may have happened, or have a place in
	// a list or a sequence.
	Matched int `json:"matched"`
	Cleared int `json:"cleared"`
	Stay    int `json:"stay"`

	// Left is how many the request did not handle: repeat it with Seen. For a dry run it is all that were found.
	Left int  `json:"left"`
	Seen Seen `json:"seen,omitempty"`
}

// DiscardRoute discards the effects that wait for a removed route.
var DiscardRoute = Operation[DiscardRouteRequest, ClearedRoute]{
	ID: "discard_route", Method: "POST", Path: "/routes/{source}/{route}/discard", Scope: Operate,
	Summary: "Discard what waits for a route that is gone. Find it with dry_run, then hand back its seen.",
	Why:     "why need they not happen?", Confirm: "discard",
	Do: func(ctx context.Context, s *Service, access Access, r DiscardRouteRequest) (ClearedRoute, error) {
		return s.clearRoute(ctx, access, r, "")
	},
}

// MoveRoute moves the effects that wait for a removed route.
var MoveRoute = Operation[MoveRouteRequest, ClearedRoute]{
	ID: "move_route", Method: "POST", Path: "/routes/{source}/{route}/move", Scope: Operate,
	Summary: "Move what waits for a route that is gone to another route of its source. Find it with dry_run, then hand back its seen.",
	Why:     "why do they move?", Confirm: "move",
	Do: func(ctx context.Context, s *Service, access Access, r MoveRouteRequest) (out ClearedRoute, err error) {
		if r.To == "" || r.To == r.Route {
			return out, invalid("to: name another route of the same source")
		}
		if err := s.ownsSource(ctx, access, r.Source); err != nil {
			return out, err
		}
		if err := s.unordered(r.Source, r.To); err != nil {
			return out, err
		}
		return s.clearRoute(ctx, access, r.DiscardRouteRequest, r.To)
	},
}

// unordered refuses to move effects into a sequence, because events get their places there when they arrive.
func (s *Service) unordered(source, route string) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	for _, src := range settings.Sources {
		for _, r := range src.Routes {
			if src.Name != source || r.Name != route {
				continue
			}
			if r.Order.Ordered() {
				return invalid("to: %s has an order, and places in a sequence are given when events come: name a route without one", route)
			}
			return nil
		}
	}
	return invalid("to: %s: the configuration has no such route of source %s", route, source)
}

func (s *Service) clearRoute(ctx context.Context, access Access, r DiscardRouteRequest, to string) (out ClearedRoute, err error) {
	most, err := bounded(r.Max, decide.DefaultDiscards, decide.MaxDiscards)
	if err != nil {
		return out, err
	}
	if err := s.ownsSource(ctx, access, r.Source); err != nil {
		return out, err
	}
	ask := decide.ClearRoute{Source: r.Source, Route: r.Route, To: to, Max: most, DryRun: r.DryRun, Actor: access.Actor, Reason: r.Reason}
	if r.DryRun {
		found, err := decide.New(s.store).ClearRoute(ctx, ask)
		if err != nil {
			return out, err
		}
		all := mapped(found.Seen, sightOf)
		return ClearedRoute{Matched: len(all), Left: len(all), Seen: seenOf(all)}, s.lister.CheckTenant(ctx, access.Tenant, sightIDs(all)...)
	}
	if r.Seen == "" {
		return out, invalid("seen is missing: make the request with dry_run first, and hand back its seen")
	}
	all, err := r.Seen.read(decide.MaxDiscards)
	if err != nil {
		return out, invalid("%v", err)
	}
	if err := s.checkRoute(ctx, r.Source, r.Route, sightIDs(all)); err != nil {
		return out, err
	}
	if err := s.lister.CheckTenant(ctx, access.Tenant, sightIDs(all)...); err != nil {
		return out, err
	}
	now, left := chosen(all)
	ask.Seen, ask.Max = mapped(now, sight.seen), step
	cleared, err := decide.New(s.store).ClearRoute(ctx, ask)
	return ClearedRoute{Matched: len(all), Cleared: cleared.Cleared, Stay: cleared.Left, Left: len(left), Seen: seenOf(left)}, err
}

// ownsSource refuses a source of another tenant as if it did not exist.
func (s *Service) ownsSource(ctx context.Context, access Access, source string) error {
	if access.Tenant == "" {
		return nil
	}
	tenant, err := s.lister.SourceTenant(ctx, source)
	if err != nil {
		return err
	}
	return access.owns(tenant, "source", source)
}

// checkRoute refuses effects that do not belong to the route, because Seen of another dry run would clear them.
func (s *Service) checkRoute(ctx context.Context, source, route string, ids []inbox.ID) error {
	other, err := s.lister.NotOfRoute(ctx, source, route, ids)
	if err != nil {
		return err
	}
	if !other.IsZero() {
		return invalid("seen has effect %s, which is not of route %s/%s", other, source, route)
	}
	return nil
}
