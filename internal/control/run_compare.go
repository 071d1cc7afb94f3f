package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/providers"
)

// RunScope names a run, or a label: the events of one workflow or of one agent session.
type RunScope struct {
	// Run is the first part of the keys of operations, as the caller sends it. It is one of a source, which must be named.
	Run string `json:"run,omitempty" flag:"--run only this run of --source: the first part of its keys"`

	// Label is what the source declares that its events are searched by, as name=value.
	Label string `json:"label,omitempty" searches:"label" flag:"--label only events with this label of their source: ''name=value''"`
}

// check reads the label, and refuses a run without a source of operations.
func (r RunScope) check(s *Service, access Access, source string) (label inbox.Label, err error) {
	if r.Label != "" {
		if label, err = inbox.ParseLabel(r.Label); err != nil {
			return label, invalid("label %q: %v", r.Label, err)
		}
	}
	if r.Run == "" {
		return label, nil
	}
	if s.cfg.Settings == nil {
		if source == "" {
			return label, invalid("a run is one of a source of operations: name the source")
		}
		return label, nil
	}
	var operations []string
	for _, known := range s.declaredSources(access) {
		if known.Provider != nil && known.Provider.IsOperation() {
			operations = append(operations, known.Name)
		}
	}
	switch {
	case slices.Contains(operations, source):
		return label, nil
	case len(operations) == 0:
		return label, invalid("no source of the configuration takes operations: only these have runs")
	}
	return label, invalid("a run needs its source, which must be a source of operations: %s", strings.Join(operations, ", "))
}

// undeclared says that no source of the configuration declares a label: then only events from before can have it.
func (s *Service) undeclared(access Access, label *read.EventLabel) []string {
	if label == nil || s.cfg.Settings == nil {
		return nil
	}
	names := map[string]bool{}
	for _, source := range s.declaredSources(access) {
		for name := range source.Labels {
			names[name] = true
		}
	}
	if names[label.Name] {
		return nil
	}
	declared := "none is"
	if len(names) > 0 {
		declared = "declared are " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
	}
	return []string{fmt.Sprintf("no source declares the label %s today; %s", label.Name, declared)}
}

// CompareRunRequest names the run or the label whose steps are compared.
type CompareRunRequest struct {
	PageRequest
	TenantFilter
	RunScope

	// Source is the name of a source. A run needs it.
	Source string `json:"source,omitempty"`

	// Since leaves out what was received before.
	Since time.Time `json:"since,omitzero"`
}

// ComparedStep compares one effect of a run with the request that would be sent today.
type ComparedStep struct {
	replay.RunStep

	// PayloadHidden says that the two requests and why they differ were left out, because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// CompareRun compares the steps of a run with what would be sent today.
var CompareRun = Operation[CompareRunRequest, read.Page[ComparedStep]]{
	ID: "compare_run", Method: "GET", Path: "/runs/comparison", Scope: ReadMetadata,
	Summary: "Compare the steps of a run, or of the events with a label, with what the configuration of the answering process would send today, " +
		"in the order in which they were received. Nothing is planned, sent or stored. A page ends early when its time runs out: continue with its next.",
	Do: func(ctx context.Context, s *Service, access Access, r CompareRunRequest) (page read.Page[ComparedStep], err error) {
		ask, err := s.auditRequest(access, r)
		if err != nil {
			return page, err
		}
		settings, err := s.settings()
		if err != nil {
			return page, err
		}
		if err := takeSlot(ctx, s.comparing, "another run is being compared; ask again in a moment"); err != nil {
			return page, err
		}
		defer func() { <-s.comparing }()
		cfg := app.JudgeConfig{Settings: settings, Pool: s.cfg.Plans, Keyring: s.cfg.Keyring, Archive: s.cfg.Archive, Logger: s.cfg.Logger, DevURL: s.cfg.DevURL, Now: s.cfg.Now}
		audit, err := app.CompareRun(ctx, cfg, ask, s.cfg.AskTargets, func(steps int) { s.cfg.Progress("asking the targets", int64(steps)) })
		if err != nil {
			return page, err
		}
		page.Data = make([]ComparedStep, len(audit.Steps))
		for i := range audit.Steps {
			page.Data[i] = ComparedStep{RunStep: audit.Steps[i]}
		}
		if audit.Next != nil {
			page.HasMore, page.Next = true, audit.Next.String()
			if !audit.InTime {
				page.SearchedTo = new(audit.Next.Time())
			}
		}
		return page, nil
	},
}

// compareWithin is how long a page of a comparison takes: the process that compares may receive deliveries as well.
const compareWithin = 2 * time.Second

func (s *Service) auditRequest(access Access, r CompareRunRequest) (ask replay.AuditRequest, err error) {
	if r.RunScope == (RunScope{}) {
		return ask, invalid("name a run with its source, or a label")
	}
	if ask.Tenant, err = r.narrow(access); err != nil {
		return ask, err
	}
	if ask.Label, err = r.RunScope.check(s, access, r.Source); err != nil {
		return ask, err
	}
	if ask.Limit, err = r.limit(); err != nil {
		return ask, err
	}
	if r.After != "" {
		if ask.After, err = inbox.ParseID(r.After); err != nil {
			return ask, invalid("after: not a cursor of this list; use the next of the page before")
		}
	}
	if !s.cfg.Patient {
		ask.Within = compareWithin
	}
	ask.Source, ask.Run, ask.Since = r.Source, providers.KeyPart(r.Run), r.Since
	return ask, nil
}
