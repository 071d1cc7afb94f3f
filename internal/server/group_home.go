package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

// homeTimeout bounds how long one database is asked which sources it has.
const homeTimeout = 5 * time.Second

// load reads the configuration of the database again, and refuses one in which a source of it lives elsewhere. A source that the
// database has not had yet is withheld while another database does not answer, because that one may have its events.
func (m *member) load(ctx context.Context) (*Loaded, error) {
	loaded, err := m.group.cfg.Load(ctx, m.name)
	if err != nil {
		return nil, err
	}
	whole := loaded.Settings
	if got, want := whole.DatabaseNames(), m.group.cfg.App.Settings.DatabaseNames(); !slices.Equal(got, want) {
		m.release(loaded)
		return nil, fmt.Errorf("databases cannot change while the process runs (they were %v and are %v): restart it; nothing was applied", want, got)
	}
	loaded.Settings = m.part(whole)
	withheld, err := m.checkHomes(ctx, whole, loaded.Settings)
	if err != nil {
		m.release(loaded)
		return nil, err
	}
	for name := range withheld {
		loaded.Logger.WarnContext(ctx, "the source is answered with 503, because a database that does not answer may have its events", slog.String("source", name))
	}
	loaded.Settings.Sources = slices.DeleteFunc(slices.Clone(loaded.Settings.Sources), func(s *config.Source) bool { return withheld[s.Name] })
	m.mu.Lock()
	m.withheld = withheld
	m.mu.Unlock()
	return loaded, nil
}

// checkHomes returns the sources of the part that have to wait for another database, and an error if another database has one of them:
// its keys are there, and every event would be new here.
func (m *member) checkHomes(ctx context.Context, whole, part *config.Config) (withheld map[string]bool, err error) {
	own, err := registered(ctx, part)
	if err != nil {
		return nil, err
	}
	withheld = map[string]bool{}
	for _, other := range m.group.members {
		if other == m {
			continue
		}
		theirs, err := registered(ctx, whole.Part(other.name))
		for _, s := range part.Sources {
			names := append(slices.Clone(s.Previous.Names), s.Name)
			has := func(registered map[string]bool) bool {
				return slices.ContainsFunc(names, func(name string) bool { return registered[name] })
			}
			switch {
			case err != nil && !has(own):
				withheld[s.Name] = true
			case has(theirs):
				return nil, fmt.Errorf("sources.%s: its events and keys are in the database %s, and every event would be new in %s: restore `database: %s`, or give the source another name",
					s.Name, other.name, m.name, other.name)
			}
		}
	}
	return withheld, nil
}

func registered(ctx context.Context, part *config.Config) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, homeTimeout)
	defer cancel()
	return app.RegisteredSources(ctx, part)
}

// release has the other databases serve the sources that they have withheld, when one more database is served.
func (g *Group) release(ctx context.Context) {
	for _, m := range g.members {
		m.mu.Lock()
		waiting := len(m.withheld) > 0
		m.mu.Unlock()
		if s := m.serving(); s != nil && waiting {
			_ = s.Reload(ctx) // the log says why it failed
		}
	}
}
