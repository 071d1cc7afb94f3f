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
	withheld, err := m.checkHomes(ctx, whole)
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

// checkHomes returns the sources of this database that have to wait for another one. It refuses the whole configuration if a database
// has a source that should live in another: its keys are there, and every event would be new elsewhere. So no database applies a
// configuration that another one refuses.
func (m *member) checkHomes(ctx context.Context, whole *config.Config) (withheld map[string]bool, err error) {
	sources, unknown := map[string]map[string]bool{}, map[string]error{}
	for _, one := range m.group.members {
		sources[one.name], unknown[one.name] = registered(ctx, whole.Part(one.name))
	}
	if err := unknown[m.name]; err != nil {
		return nil, err
	}
	withheld = map[string]bool{}
	for _, s := range whole.Sources {
		has := func(database string) bool {
			return sources[database][s.Name] || slices.ContainsFunc(s.Previous.Names, func(name string) bool { return sources[database][name] })
		}
		home := whole.HomeOf(s.Name)
		for _, other := range m.group.members {
			switch {
			case other.name == home:
			case has(other.name):
				return nil, fmt.Errorf("sources.%s: its events and keys are in the database %s, and every event would be new in %s: restore `database: %s`, or give the source another name",
					s.Name, other.name, home, other.name)
			case home == m.name && unknown[other.name] != nil && !has(home):
				withheld[s.Name] = true
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
