package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/background"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/yamltree"
)

const (
	// partitionsAhead is how many days of body partitions exist in advance. A process may be down,
	// or its maintenance fail, for almost that long.
	partitionsAhead = 7
	partitionsEvery = time.Hour
)

// sourceRows returns the sources and routes of the configuration as they are registered.
func sourceRows(settings *config.Config) ([]registry.Source, error) {
	rows := make([]registry.Source, 0, len(settings.Sources))
	for _, s := range settings.Sources {
		row := registry.Source{
			PreviousNames: s.Previous.Names, Separate: s.Previous.None,
			Name: s.Name, Provider: s.Provider.Name(), Class: s.Class, Tenant: s.Tenant, Emit: s.Emit && !s.Disabled, Shadow: s.Shadow, Disabled: s.Disabled, Tombstone: s.Keep.Tombstone,
		}
		for _, r := range s.Routes {
			row.EmitOrdered = row.EmitOrdered || s.Emit && r.Order.Policy.Mode == sequence.Arrival
			digest, err := routeDigest(r)
			if err != nil {
				return nil, err
			}
			described, err := describe(r).document()
			if err != nil {
				return nil, err
			}
			row.Routes = append(row.Routes, registry.Route{
				PreviousNames: r.Previous.Names, Separate: r.Previous.None, Key: keyRecipe(r),
				Name: r.Name, Target: r.Target.Name, Kind: storedKind(r.Target.Kind), Digest: digest, Definition: described,
			})
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// register writes the sources and routes and makes the partitions for their bodies.
func (a *App) register(ctx context.Context) error {
	rows, err := sourceRows(a.settings)
	if err != nil {
		return err
	}
	if a.unasked {
		a.suppose(rows)
		return nil
	}
	var classes []string
	for _, s := range a.settings.Sources {
		if !slices.Contains(classes, s.Class) {
			classes = append(classes, s.Class)
		}
	}
	if a.sources, err = a.registerSources(ctx); err != nil {
		return err
	}
	a.tellRenamed(ctx)
	a.warnStranded(ctx)
	if err := a.whenUnlocked(ctx, "register the orders of routes", func() error { return a.registerOrders(ctx) }); err != nil {
		return err
	}
	err = a.whenUnlocked(ctx, "make partitions", func() error {
		return inbox.EnsurePartitions(ctx, a.adminPool, classes, a.clock.Now(), partitionsAhead)
	})
	if err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "partition maintenance", run: func(ctx context.Context) error {
		a.every(ctx, "partition maintenance", partitionsEvery, func(ctx context.Context) {
			if holder := advisory.Holder(ctx, a.adminPool, advisory.Space, "$2::int", advisory.Partitions); holder != nil {
				a.log.LogAttrs(ctx, slog.LevelWarn, "another session has the lock under which partitions are made: they are made without it", holder.Attrs()...)
			}
			if err := inbox.EnsurePartitions(ctx, a.adminPool, classes, a.clock.Now(), partitionsAhead); err != nil {
				a.log.ErrorContext(ctx, "making partitions failed", slog.Any("error", err))
			}
		})
		return nil
	}})
	return nil
}

// registerSources writes the retention classes, the sources and the routes of the configuration, and returns the ids of
// the sources.
func (a *App) registerSources(ctx context.Context) (sources map[string]registry.Registered, err error) {
	rows, err := sourceRows(a.settings)
	if err != nil {
		return nil, err
	}
	all := registry.Registration{Pool: a.adminPool, Sources: rows, Configuration: a.settings.Fingerprint()}
	kept := make([]prune.ClassRow, len(a.settings.Classes))
	for i, c := range a.settings.Classes {
		kept[i] = prune.ClassRow{Name: c.Name, Horizons: c.Horizons()}
	}
	if err := a.whenUnlocked(ctx, "register retention classes", func() error { return prune.RegisterClasses(ctx, a.adminPool, kept) }); err != nil {
		return nil, err
	}
	err = a.whenUnlocked(ctx, "register sources and routes", func() (err error) {
		sources, err = all.Write(ctx)
		return err
	})
	return sources, err
}

// suppose assigns the sources and routes the ids that they would get in an empty database.
func (a *App) suppose(rows []registry.Source) {
	a.sources, a.series = make(map[string]registry.Registered, len(rows)), map[int32]inbox.Series{}
	next := int32(0)
	for i, row := range rows {
		source := registry.Registered{ID: int32(i + 1), Name: row.Name, KeyName: a.supposedFirstName(row.Name), Routes: map[string]registry.RegisteredRoute{}}
		for _, route := range row.Routes {
			next++
			source.Routes[route.Name] = registry.RegisteredRoute{ID: next, Version: 1, Name: route.Name, KeyName: route.Name}
			a.series[next] = inbox.Series{ID: int64(next)}
		}
		a.sources[row.Name] = source
	}
}

// supposedFirstName returns the name with which the keys of a source are made, if it is known without the database.
func (a *App) supposedFirstName(name string) string {
	if a.waiting != nil {
		return cmp.Or(a.waiting.FirstNames[name], name)
	}
	return name
}

// every runs do in the background, once per pause, until the app stops.
func (a *App) every(ctx context.Context, name string, pause time.Duration, do func(ctx context.Context)) {
	do = a.chore(do)
	a.cleanups.add(name, background.Run(ctx, func(ctx context.Context) {
		a.repeat(ctx, pause, do)
	}))
}

// readEvery is [App.every] for gauges: it reads at once, too. A restart would otherwise interrupt
// the alerts on them.
func (a *App) readEvery(ctx context.Context, name string, pause time.Duration, read func(ctx context.Context)) {
	read = a.chore(read)
	a.cleanups.add(name, background.Run(ctx, func(ctx context.Context) {
		read(ctx)
		a.repeat(ctx, pause, read)
	}))
}

// chore adds do to what [App.CatchUp] does. The chore that it returns runs once at a time.
func (a *App) chore(do func(ctx context.Context)) func(ctx context.Context) {
	var running sync.Mutex
	once := func(ctx context.Context) {
		running.Lock()
		defer running.Unlock()
		do(ctx)
	}
	a.chores = append(a.chores, once)
	return once
}

// CatchUp does now, once and in order, what the started process does periodically in the background. A test whose clock has
// moved calls it, because tickers do not follow [Config.Now].
func (a *App) CatchUp(ctx context.Context) {
	for _, do := range a.chores {
		do(ctx)
	}
}

func (*App) repeat(ctx context.Context, pause time.Duration, do func(ctx context.Context)) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do(ctx)
		}
	}
}

// storedKind returns the kind's name in the route table. Stored: never change.
func storedKind(kind config.Kind) string {
	if kind == config.KindDev {
		return string(config.KindForward)
	}
	return string(kind)
}

// definitionOf returns what a route does. It leaves out the settings that a route does not use, so
// that a new key of the configuration does not give every route a new version.
func definitionOf(r *config.Route) []any {
	t := r.Target
	out := []any{r.Types, t.Name, t.Kind, t.URL, t.Idempotent, t.KeyHeader, t.Call}
	if r.When != nil {
		out = append(out, "when", r.When.String())
	}
	if r.Key != nil && r.Key.Recipe != nil {
		out = append(out, "key", r.Key.Recipe.Version, r.Key.Recipe.Exclude, int64(r.Key.Within))
		for _, field := range r.Key.Recipe.Texts() {
			out = append(out, field)
		}
	}
	if r.Order.Ordered() {
		out = append(out, "order", r.Order.Effective())
	}
	if r.Map != nil {
		out = append(out, "map", r.Map.Source())
	}
	if r.Fetch != nil {
		out = append(out, "fetch", r.Fetch.URL, r.Fetch.Hosts)
	}
	if r.Mail != nil {
		out = append(out, "mail", t.SMTP, t.From, r.Mail.To.String(), r.Mail.Subject, r.Mail.Text, r.Mail.HTML)
		out = append(out, messageFeatures(r)...)
	}
	if len(t.PassHeaders) > 0 {
		out = append(out, "pass_headers", t.PassHeaders)
	}
	if t.Statement != "" {
		out = append(out, "statement", t.Statement)
		for _, name := range slices.Sorted(maps.Keys(t.Parameters)) {
			out = append(out, name, t.Parameters[name].String())
		}
	}
	if t.Kind == config.KindPublish {
		p := t.PublishConfig(nil)
		out[3] = p.Broker.Address.String() // without the account
		out = append(out, "publish", p.Place, p.Within)
	}
	if t.Kind == config.KindSuppress {
		out = append(out, "suppress", t.Suppress.Address.String(), string(t.Suppress.Reason), t.Suppress.Target, int64(t.Suppress.Keep))
		if t.Suppress.ReasonOf != nil {
			out = append(out, t.Suppress.ReasonOf.String())
		}
	}
	return out
}

// keyRecipe returns how the keys of a route are made, or nil if it has no recipe.
func keyRecipe(r *config.Route) *registry.KeyRecipe {
	if r.Key == nil || r.Key.Recipe == nil {
		return nil
	}
	text := "fields [" + strings.Join(r.Key.Recipe.Texts(), ", ") + "]"
	if len(r.Key.Recipe.Exclude) > 0 {
		text += ", exclude [" + strings.Join(r.Key.Recipe.Exclude, ", ") + "]"
	}
	if r.Key.Within > 0 {
		text += ", within " + yamltree.FormatDuration(r.Key.Within)
	}
	return &registry.KeyRecipe{Version: r.Key.Recipe.Version, Words: text}
}

// routeDigest identifies what a route does: another digest makes a new version. Secrets, timeouts
// and retries are left out, because changing them changes no effect.
func routeDigest(r *config.Route) ([]byte, error) {
	definition, err := json.Marshal(definitionOf(r))
	if err != nil {
		return nil, fmt.Errorf("describing route %s: %w", r.Name, err)
	}
	sum := sha256.Sum256(definition)
	return sum[:], nil
}
