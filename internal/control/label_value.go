package control

import (
	"context"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
)

// maxLabelNames bounds the names under which one search looks for a value. Each costs one look into the index of labels.
const maxLabelNames = 32

// searchedLabel returns the label by which a list of events is narrowed. The text is name=value, or a value alone: then it is the
// declared label under which events of the filter have it. It is the zero label if the text is empty.
func (s *Service) searchedLabel(ctx context.Context, text string, filter read.EventFilter) (inbox.Label, error) {
	if text == "" {
		return inbox.Label{}, nil
	}
	if strings.Contains(text, "=") {
		label, err := inbox.ParseLabel(text)
		if err != nil {
			return label, invalid("label: %v", err)
		}
		return label, nil
	}
	names := s.labelNames(filter.Source)
	if len(names) == 0 {
		return inbox.Label{}, invalid("label: no label is declared in the configuration that this process has: write name=value")
	}
	var found []string
	for _, name := range names {
		filter.Label, filter.Limit = inbox.Label{Name: name, Value: text}, 1
		if !filter.Label.Storable() || len(text) > inbox.MaxLabelValue {
			return inbox.Label{}, invalid("label: a value is text of 1 to %d bytes", inbox.MaxLabelValue)
		}
		page, err := s.lister.Events(ctx, filter)
		if err != nil {
			return inbox.Label{}, err
		}
		if len(page.Data) > 0 || page.HasMore {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return inbox.Label{Name: names[0], Value: text}, nil // under which there is no event
	case 1:
		return inbox.Label{Name: found[0], Value: text}, nil
	}
	return inbox.Label{}, &Problem{Code: CodeAmbiguous, Detail: "events have this value under several labels: " + strings.Join(found, ", ") + "; write one of them as name=value"}
}

// labelNames returns the names of the labels that a source declares, or all sources, sorted.
func (s *Service) labelNames(source string) (names []string) {
	if s.cfg.Settings == nil {
		return nil
	}
	for _, configured := range s.cfg.Settings.Sources {
		if source != "" && configured.Name != source {
			continue
		}
		for name := range configured.Labels {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxLabelNames)]
}
