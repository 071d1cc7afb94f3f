package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

// homeTimeout bounds how long the databases are asked which sources they have.
const homeTimeout = 5 * time.Second

// load reads the configuration of the database. It withholds sources that are new in this database while another database does not
// answer, because the other database may have their events.
func (m *member) load(ctx context.Context) (*Loaded, error) {
	loaded, err := m.group.cfg.Load(ctx, m.name)
	if err != nil {
		return nil, err
	}
	whole := loaded.Settings
	if got, want := whole.DatabaseNames(), m.group.cfg.App.Settings.DatabaseNames(); !slices.Equal(got, want) {
		loaded.release()
		return nil, fmt.Errorf("databases cannot change while the process runs (they were %v and are %v): restart it; nothing was applied", want, got)
	}
	if loaded.withheld, err = m.checkHomes(ctx, loaded.Logger, whole); err != nil {
		loaded.release()
		return nil, err
	}
	loaded.Settings = m.part(whole)
	for _, name := range loaded.withheld {
		loaded.Logger.WarnContext(ctx, "the source is answered with 503, because a database that does not answer may have its events", slog.String("source", name))
	}
	loaded.Settings.Sources = slices.DeleteFunc(slices.Clone(loaded.Settings.Sources), func(s *config.Source) bool { return slices.Contains(loaded.withheld, s.Name) })
	return loaded, nil
}

// checkHomes tells the configuration where the sources live that have moved, and returns the names of the sources to withhold. It returns an
// error if any source would change its database without a move, because its keys would be missing there. It checks the sources of all
// databases, so that no member applies a configuration that another refuses.
func (m *member) checkHomes(ctx context.Context, log *slog.Logger, whole *config.Config) (withheld []string, err error) {
	sources, unknown := m.group.registered(ctx, whole)
	if err := unknown[m.name]; err != nil {
		return nil, err
	}
	for _, s := range app.Reside(whole, sources) {
		log.WarnContext(ctx, "the source has moved: write its database into the configuration", slog.String("source", s.Name), slog.String("home", s.Database))
	}
	for _, s := range whole.Sources {
		names := append([]string{s.Name}, s.Previous.Names...)
		has := func(database string) bool { return slices.ContainsFunc(names, sources[database].Has) }
		home := whole.HomeOf(s.Name)
		waits := false
		for _, other := range m.group.members {
			switch {
			case other.name == home:
			case has(other.name):
				return nil, fmt.Errorf("sources.%s: its events and keys are in the database %s, and every event would be new in %s: run `oncegate sources move %s --to %s`, restore `database: %s`, or give the source another name",
					s.Name, other.name, home, s.Name, home, other.name)
			case home == m.name && unknown[other.name] != nil && !has(home):
				waits = true
			}
		}
		if waits {
			withheld = append(append(withheld, s.Name), s.Previous.Names...)
		}
	}
	return withheld, nil
}

// registered asks all databases in parallel for the names of their sources. unknown has the errors of those that did not answer.
func (g *Group) registered(ctx context.Context, whole *config.Config) (sources map[string]*app.Registered, unknown map[string]error) {
	ctx, cancel := context.WithTimeout(ctx, homeTimeout)
	defer cancel()
	sources, unknown = map[string]*app.Registered{}, map[string]error{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, m := range g.members {
		asking.Go(func() {
			found, err := app.RegisteredSources(ctx, whole.Part(m.name))
			mu.Lock()
			defer mu.Unlock()
			if unknown[m.name] = err; err != nil {
				found = &app.Registered{}
			}
			sources[m.name] = found
		})
	}
	asking.Wait()
	return sources, unknown
}

// release reloads the members that withhold sources. Call it when a further database is served.
func (g *Group) release(ctx context.Context) {
	for _, m := range g.members {
		if s := m.serving(); s != nil && len(s.lead().withheld) > 0 {
			_ = s.Reload(ctx) // the log says why it failed
		}
	}
}
