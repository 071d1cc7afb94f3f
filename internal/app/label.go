package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/labels"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
)

// labelsOf returns the function that makes the labels of a source's events. It is nil if the source declares none. An
// event without a field lacks the label for it. A label that cannot be made for another reason is counted, and the
// event is admitted.
func (a *App) labelsOf(s *config.Source, registered registry.Registered) func(d *inbox.Admission, event int) []inbox.Label {
	if len(s.Labels) == 0 {
		return nil
	}
	names, source := slices.Sorted(maps.Keys(s.Labels)), a.keySource(s)
	paths := newLabelPaths(names, s.Labels)
	headers := slices.ContainsFunc(names, func(name string) bool { return mentionsHeaders(s.Labels[name]) })
	return func(d *inbox.Admission, event int) []inbox.Label {
		e := &d.Events[event]
		body := s.Provider.Document(d.Body[e.Offset : e.Offset+e.Length])
		read := paths.read(body)
		in := &expression.Input{
			Event: expression.Event{
				ID: e.EventID, Type: e.Type, Source: source, Provider: s.Provider.Name(), OccurredAt: e.OccurredAt, ReceivedAt: d.ReceivedAt,
			},
			Body: body,
		}
		if headers {
			in.Headers = jobs.HeaderTexts(d.Headers)
		}
		out := make([]inbox.Label, 0, len(names))
		for i, name := range names {
			value, err, known := read.text(i)
			if !known {
				value, err = s.Labels[name].Text(in)
			}
			label := inbox.Label{Name: name, Value: value}
			switch {
			case errors.Is(err, expression.ErrNull), errors.Is(err, expression.ErrMissing):
			case err != nil || !label.Storable():
				a.rollup.Counters(registered.ID, 0, cmp.Or(d.Tenant, s.Tenant)).Add(d.ReceivedAt, rollup.LabelErrors, 1)
			default:
				out = append(out, label)
			}
		}
		return out
	}
}

// readInstallation reads the secret under which labels, the keys of recipes and the hashes of content are stored. There is none if
// nothing is sealed.
func (a *App) readInstallation() (err error) {
	if a.installation.Value != nil || a.keys == nil || a.unasked {
		return nil
	}
	ctx := context.Background()
	err = a.whenUnlocked(ctx, "read the secret of the installation", func() error {
		return pgx.BeginFunc(ctx, a.adminPool, func(tx pgx.Tx) error {
			a.installation, err = inbox.InstallationSecretTx(ctx, tx, a.keys)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("reading the secret of the installation: %w", err)
	}
	return nil
}

// makeLabelIndexer makes the indexer, which moves labels into their index. Every process with a gate has one, even if
// none of its sources has labels, because another process may have left some.
func (a *App) makeLabelIndexer() (*labels.Indexer, error) {
	indexer, err := labels.New(labels.Config{DB: a.adminPool, Now: a.clock.Now, Logger: a.log})
	if err != nil {
		return nil, err
	}
	a.starts = append(a.starts, step{name: "labels", run: func(ctx context.Context) error {
		a.cleanups.add("labels", indexer.Stop)
		return indexer.Start(ctx)
	}})
	return indexer, nil
}
