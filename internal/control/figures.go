package control

import (
	"context"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/rollup"
)

// ShowAttentionRequest asks what waits for an operator.
type ShowAttentionRequest struct {
	TenantFilter
}

// ShowAttention shows what waits for an operator.
var ShowAttention = Operation[ShowAttentionRequest, attention.Attention]{
	ID: "show_attention", Method: "GET", Path: "/attention", Scope: ReadMetadata,
	Summary: "Show what waits for a person, by kind: how many, since when, and where. Counts are bounded.",
	Do: func(ctx context.Context, s *Service, access Access, r ShowAttentionRequest) (out attention.Attention, err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return out, err
		}
		reader, err := attention.New(attention.Config{Pool: s.cfg.Lists, Now: s.cfg.Now})
		if err != nil {
			return out, err
		}
		if out, err = reader.Read(ctx, tenant); out.Data == nil {
			out.Data = []attention.Item{}
		}
		return out, err
	},
}

// ShowFiguresRequest narrows figures. A zero field does not narrow them.
type ShowFiguresRequest struct {
	TenantFilter

	// Source is the name of a source. Route is the name of a route.
	Source string `json:"source,omitempty"`
	Route  string `json:"route,omitempty"`

	// Target is the name of a target: the figures of all routes to it.
	Target string `json:"target,omitempty"`

	// Window is how far back the figures go: 1h, 24h or 7d. It defaults to 1h.
	Window rollup.Window `json:"window,omitempty"`
}

// Figures are the counts of a window.
type Figures struct {
	rollup.Sums

	// StepSeconds is the length of each point. The last point is not complete yet.
	StepSeconds float64 `json:"step_seconds"`

	// Points are in order of time, one for each minute or hour.
	Points []rollup.Point `json:"points"`

	// Activities are the sources, by the time of their last event.
	Activities []rollup.Activity `json:"activities"`

	// Unsettled is what is held and how old the oldest unsettled effect is, at this moment and independent of the
	// window.
	Unsettled read.Unsettled `json:"unsettled"`
}

// ShowFigures shows what was counted.
var ShowFigures = Operation[ShowFiguresRequest, *Figures]{
	ID: "show_figures", Method: "GET", Path: "/figures", Scope: ReadMetadata,
	Summary: "Show what was counted in the last hour, day or week: events, duplicates, conflicts, refusals, ends of effects, times of acknowledgements; and the effects that are held and unsettled now.",
	Do: func(ctx context.Context, s *Service, access Access, r ShowFiguresRequest) (*Figures, error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return nil, err
		}
		if r.Window != "" && !slices.Contains(rollup.Windows(), r.Window) {
			return nil, invalid("window %q is unknown; known are %v", r.Window, rollup.Windows())
		}
		filter := rollup.Filter{Source: r.Source, Route: r.Route, Target: r.Target, Tenant: tenant, Window: r.Window}
		reader := rollup.NewReader(s.cfg.Lists)
		out := &Figures{}
		if out.Sums, err = reader.Sums(ctx, filter); err != nil {
			return nil, err
		}
		series, err := reader.Series(ctx, filter)
		if err != nil {
			return nil, err
		}
		out.StepSeconds, out.Points = series.Step.Seconds(), series.Points
		if out.Activities, err = reader.Activities(ctx, filter); out.Activities == nil {
			out.Activities = []rollup.Activity{}
		}
		if err != nil {
			return nil, err
		}
		out.Unsettled, err = s.lister.ForTenant(tenant).Unsettled(ctx, read.UnsettledFilter{Source: r.Source, Route: r.Route})
		return out, err
	},
}

// IsEmpty reports whether nothing was counted.
func (f *Figures) IsEmpty() bool { return len(f.Rows) == 0 }

// Step returns the length of each point.
func (f *Figures) Step() time.Duration { return time.Duration(f.StepSeconds * float64(time.Second)) }
