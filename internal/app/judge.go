package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/scheme"
)

// JudgeConfig configures a [Judge]. Settings, Pool and Logger are required.
type JudgeConfig struct {
	Settings *config.Config
	Pool     *pgxpool.Pool
	Logger   *slog.Logger

	// Keyring opens the secrets under which sequence keys are hashed. It is nil if there are none.
	Keyring *seal.Keyring

	// Archive has the bodies that prune has removed. It is nil if there is none.
	Archive *archive.Archive

	// DevURL is the same as in [Config].
	DevURL string

	// Now returns the time with which key windows are compared. It defaults to time.Now.
	Now func() time.Time
}

// Judge says what today's configuration would do with recorded events. It runs the code of the
// receiver and of the worker. It sends nothing, fetches nothing and writes nothing. It is safe for
// concurrent use.
type Judge struct {
	cfg       JudgeConfig
	registry  *registry.Registry
	sources   map[int32]*judgedSource
	routes    map[int32]*judgedRoute
	previewer jobs.Previewer
	limits    map[string]jobs.Target // by the names of targets
	versions  sync.Map               // of routeVersion to routeDescription, as they are met

	// Unregistered are the routes of the configuration, as source/route, with which no server has
	// been started. Nothing can be replayed to them yet. Stale are the routes of which the servers
	// were started with another version.
	Unregistered, Stale []string
}

var _ replay.Judge = (*Judge)(nil)

// judgedSource is a source of the configuration with its row.
type judgedSource struct {
	*config.Source
	keyName  string
	provider *providers.Provider
	secrets  []providers.Secret
	redact   redaction
	routes   []*judgedRoute
}

// judgedRoute is a route of the configuration with its row.
type judgedRoute struct {
	*config.Route
	inbox   inbox.Route
	stored  inbox.EffectRoute
	today   routeDescription
	current bool
	source  *judgedSource
}

// offline replaces the fetching of published keys, because a plan asks no one over the network.
type offline struct{}

var errOffline = errors.New("keys are not fetched for a plan")

// Fetch implements [providers.Fetcher].
func (offline) Fetch(scheme.KeyRequest) ([]byte, error) { return nil, errOffline }

// Ask implements [providers.Asker].
func (offline) Ask(*scheme.Question) ([]byte, error) { return nil, errOffline }

// NewJudge makes a judge from the configuration and from what is registered in the database. It
// only reads the database.
func NewJudge(ctx context.Context, cfg JudgeConfig) (*Judge, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	j := &Judge{cfg: cfg, sources: map[int32]*judgedSource{}, routes: map[int32]*judgedRoute{}}
	var err error
	if j.registry, err = registry.Read(ctx, cfg.Pool); err != nil {
		return nil, err
	}
	rows, err := sourceRows(cfg.Settings)
	if err != nil {
		return nil, err
	}
	registered, err := j.registry.Resolve(rows)
	if err != nil {
		return nil, err
	}
	a := &App{cfg: Config{DevURL: cfg.DevURL, Now: cfg.Now}, settings: cfg.Settings, sources: registered, log: cfg.Logger}
	if a.series, err = inbox.ReadSeries(ctx, cfg.Pool, cfg.Keyring, a.orders(cfg.Settings.Sources...)); err != nil {
		return nil, err
	}
	if a.installation, err = inbox.ReadInstallationSecret(ctx, cfg.Pool, cfg.Keyring); err != nil {
		return nil, err
	}
	targets, err := a.targets()
	if err != nil {
		return nil, err
	}
	stored, worked, err := a.routes()
	if err != nil {
		return nil, err
	}
	j.limits = targets.limits
	j.previewer = jobs.Previewer{Routes: worked, Stored: stored, Senders: targets.senders, Transactionals: targets.transactionals}
	for _, s := range cfg.Settings.Sources {
		registered, known := a.sources[s.Name]
		provider, err := bound(s, offline{})
		if err != nil {
			return nil, err
		}
		source := &judgedSource{Source: s, keyName: registered.KeyName, provider: provider, secrets: s.Keys(), redact: newRedaction(s.Redact)}
		if known {
			j.sources[registered.ID] = source
		}
		rows := a.inboxSource(s).Routes
		for i, r := range s.Routes {
			row, known := registered.Routes[r.Name]
			if !known {
				j.Unregistered = append(j.Unregistered, s.Name+"/"+r.Name)
				continue
			}
			digest, err := routeDigest(r)
			if err != nil {
				return nil, err
			}
			route := &judgedRoute{
				Route: r, inbox: rows[i], stored: stored[row.ID], today: describe(r),
				current: bytes.Equal(digest, j.registry.Current[row.ID]), source: source,
			}
			if !route.current {
				j.Stale = append(j.Stale, s.Name+"/"+r.Name)
			}
			j.routes[row.ID] = route
			source.routes = append(source.routes, route)
		}
	}
	return j, nil
}

// Judge implements [replay.Judge].
func (j *Judge) Judge(ctx context.Context, r *replay.RecordedEvent) ([]replay.Judgement, error) {
	source := j.sources[r.SourceID]
	event := judgedEvent{RecordedEvent: r, source: source}
	event.extract()
	out := make([]replay.Judgement, 0, len(r.Effects)+1)
	answered := make(map[int32]bool, len(r.Effects))
	for i := range r.Effects {
		e := &r.Effects[i]
		answered[e.RouteID] = true
		judgement, err := j.effect(ctx, &event, e)
		if err != nil {
			return nil, err
		}
		out = append(out, judgement)
	}
	if source == nil {
		return out, nil
	}
	for _, route := range source.routes {
		if answered[route.inbox.ID] || !route.inbox.Matches(r.Event.Type) {
			continue
		}
		judgement, wanted, err := j.newRoute(&event, route)
		if err != nil {
			return nil, err
		}
		if wanted {
			out = append(out, judgement)
		}
	}
	return out, nil
}

type routeVersion struct {
	route   int32
	version int
}

// version returns the description of a route when an effect was recorded.
func (j *Judge) version(e *replay.RecordedEffect) (routeDescription, error) {
	key := routeVersion{e.RouteID, e.RouteVersion}
	if met, ok := j.versions.Load(key); ok {
		return met.(routeDescription), nil
	}
	d, err := j.describe(e)
	if err == nil {
		j.versions.Store(key, d)
	}
	return d, err
}

func (j *Judge) describe(e *replay.RecordedEffect) (routeDescription, error) {
	v, ok := j.registry.Version(e.RouteID, e.RouteVersion)
	if !ok {
		return routeDescription{Target: e.Target}, nil
	}
	var d routeDescription
	if err := json.Unmarshal(v.Definition, &d); err != nil {
		return d, fmt.Errorf("reading version %d of route %s/%s: %w", e.RouteVersion, e.Route, e.Target, err)
	}
	if !d.known() {
		d.Target = v.Target // all that is known about a version older than the first described one
	}
	return d, nil
}
