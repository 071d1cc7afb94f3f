package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/migrations"
)

// keyNeeded is how long this process is not ready after it put off an effect because it lacks a
// key, unless it gets the key. It is longer than effects are put off.
const keyNeeded = 2 * time.Minute

// enlist writes the process into the table of nodes, renews its heartbeat, and reloads its keyring.
// The commands that rotate keys read the table to find out which processes have a key.
func (a *App) enlist(ctx context.Context) error {
	var roles []string
	if a.cfg.Receive {
		roles = append(roles, "receive")
	}
	if a.cfg.Work {
		roles = append(roles, "work")
	}
	version := a.cfg.Version
	if version == "" {
		version = "unknown"
	}
	self, err := node.New(node.Config{
		Pool: a.adminPool, Name: a.node, Version: version, Roles: roles, Configuration: a.settings.Fingerprint(), Keyring: a.keys, OpenBreakers: a.openBreakers, Consumers: a.consuming,
		SchemaKnown: migrations.Version, RiverKnown: migrations.RiverVersion,
	})
	if err != nil {
		return err
	}
	a.fleet = self
	if a.unasked {
		return nil
	}
	var nodes []node.Row
	err = a.whenUnlocked(ctx, "register this process", func() (err error) {
		nodes, err = self.Beat(ctx)
		return err
	})
	if err != nil {
		return err
	}
	a.compareKeys(ctx, self.ID(), nodes)
	a.compareConfigurations(ctx, self.ID(), nodes)
	a.cleanups.add("node", self.Leave)
	a.starts = append(a.starts, step{name: "node", run: func(ctx context.Context) error {
		a.every(ctx, "node", node.Heartbeat, func(ctx context.Context) {
			a.reloadKeyring(ctx)
			if nodes, err := self.Beat(ctx); err != nil {
				a.log.WarnContext(ctx, "this process could not show that it lives", slog.Any("error", err))
			} else {
				a.compareKeys(ctx, self.ID(), nodes)
				a.compareConfigurations(ctx, self.ID(), nodes)
			}
		})
		return nil
	}})
	return nil
}

// openBreakers returns the targets whose breaker is open in this process.
func (a *App) openBreakers() (out []string) {
	if a.work == nil {
		return nil
	}
	for target, state := range a.work.Breakers() {
		if state != jobs.BreakerClosed {
			out = append(out, target)
		}
	}
	slices.Sort(out)
	return out
}

// compareConfigurations logs once which live processes have another configuration. That is normal
// during a deploy. If it lasts, the result of an effect depends on which process takes it. A process that serves another
// revision of the sources of the database reloads within seconds, or says why it cannot, so it is not compared.
func (a *App) compareConfigurations(ctx context.Context, self inbox.ID, nodes []node.Row) {
	own := a.settings.Fingerprint()
	var others []string
	for i := range nodes {
		// A row with this process's name is of the configuration that it had before a reload.
		if n := &nodes[i]; n.ID != self && n.Name != a.node && n.Live && n.Configuration != own && (n.Definitions == nil || *n.Definitions == a.settings.Revision) {
			others = append(others, n.Name+" ("+n.Configuration+")")
		}
	}
	slices.Sort(others)
	text := strings.Join(others, ", ")
	before := a.differing
	if a.differing = text; text != "" && text != before {
		a.log.WarnContext(ctx, "live processes have another configuration than this one; `oncegate nodes list` shows them",
			slog.String("configuration", own), slog.String("others", text))
	}
}

// announce records for the other processes which routes this one works. Before this process's workers
// stop, it withdraws the routes, because the workers then fetch nothing more but may take long to
// finish.
func (a *App) announce(ctx context.Context, routes []int32) error {
	a.cleanups.add("routes", func(ctx context.Context) error { return a.fleet.Work(ctx, nil) })
	return a.fleet.Work(ctx, routes)
}

// KeepsConfiguration records for operators why the process could not apply its new configuration.
func (a *App) KeepsConfiguration(ctx context.Context, why string) error {
	return a.fleet.KeepsConfiguration(ctx, why)
}

func (a *App) reloadKeyring(ctx context.Context) {
	if a.keys == nil {
		return
	}
	before := a.keys.Ring().Active().ID
	if err := a.keys.Reload(); err != nil {
		a.log.ErrorContext(ctx, "reading the keyring again failed; the keys stay as they were", slog.Any("error", err))
	} else if now := a.keys.Ring().Active().ID; now != before {
		a.log.InfoContext(ctx, "another key seals from now on", slog.Int("key", int(now)))
	}
}

// compareKeys records how this process's keyring conflicts with the keyrings of the others.
func (a *App) compareKeys(ctx context.Context, self inbox.ID, nodes []node.Row) {
	var problem error
	if ring := a.keys.Ring(); ring != nil {
		problem = keyProblem(ring, self, nodes)
	}
	text := ""
	if problem != nil {
		text = problem.Error()
	}
	if before := a.keyTrouble.Swap(&text); text != "" && (before == nil || *before != text) {
		a.log.ErrorContext(ctx, "this process cannot read what others seal", slog.Any("error", problem))
	}
}

// keyProblem returns an error if a live process seals with a key that is not in the ring, or has
// another key of the same id.
func keyProblem(ring *seal.Ring, self inbox.ID, nodes []node.Row) error {
	own := map[int32]string{}
	for _, k := range ring.Keys() {
		own[k.ID] = k.Fingerprint()
	}
	for i := range nodes {
		n := &nodes[i]
		if n.ID == self || !n.Live {
			continue
		}
		for _, k := range n.Keys {
			if mine, ok := own[k.ID]; ok && mine != k.Fingerprint {
				return fmt.Errorf("key %d of this keyring is not key %d of node %s: bring both the same keyring", k.ID, k.ID, n)
			} else if !ok && k.ID == n.ActiveKey {
				return fmt.Errorf("node %s seals with key %d, which is not in this keyring: bring this process the keyring that has it", n, k.ID)
			}
		}
	}
	return nil
}

// checkKeys returns an error if this process cannot open what it works on. A process that only
// receives needs no earlier key to accept deliveries.
func (a *App) checkKeys() error {
	if a.work == nil {
		return nil
	}
	if text := a.keyTrouble.Load(); text != nil && *text != "" {
		return errors.New(*text)
	}
	now := a.cfg.Now()
	for _, k := range a.work.MissingKeys() {
		if now.Sub(k.Last) < keyNeeded && !a.keys.Has(k.ID) {
			return fmt.Errorf("effects are sealed with key %d, which this process lacks: bring it the keyring that has the key", k.ID)
		}
	}
	return nil
}

// countPulledBack makes the metric of times that were written while the database's clock was ahead.
func (a *App) countPulledBack(store *inbox.Effects) error {
	return a.collect(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "oncegate_times_pulled_back_total",
		Help: "Times of effects, gaps and replays that were further ahead than their policy allows, as if the database's clock had been ahead, and were brought back.",
	}, func() float64 { return float64(store.PulledBack()) }))
}

// countMissingKeys makes the metric of effects that were put off because a key is missing.
func (a *App) countMissingKeys() error {
	return a.collect(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "oncegate_sealed_postponements_total", Help: "How often effects were put off because this process lacks their sealing key.",
	}, func() float64 {
		n := uint64(0)
		for _, k := range a.work.MissingKeys() {
			n += k.Effects
		}
		return float64(n)
	}))
}
