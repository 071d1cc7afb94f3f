package config

import (
	"github.com/oncegate/oncegate/internal/fold"
	"github.com/oncegate/oncegate/internal/yamltree"
)

func (r *reader) database(cfg *Config, n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){
		"url":               func(n *yamltree.Node) { r.databaseURL(cfg, n) },
		"list_url":          r.reference(&cfg.Database.ListURL, connectionString),
		"schema":            yamltree.Value(&cfg.Database.Schema, schema),
		"durability":        yamltree.Value(&cfg.Database.Durability, durability),
		"gate_connections":  yamltree.Value(&cfg.Database.GateConnections, connections(4)),
		"work_connections":  yamltree.Value(&cfg.Database.WorkConnections, connections(2)),
		"queue_connections": yamltree.Value(&cfg.Database.QueueConnections, connections(8)),
	})
}

// databaseURL reads the address, unless an environment variable sets it.
func (r *reader) databaseURL(cfg *Config, n *yamltree.Node) {
	if r.env.has("ONCEGATE_DATABASE_URL") || r.env.has("DATABASE_URL") && n.Value() == "env:DATABASE_URL" {
		return
	}
	if n.Value() == "env:DATABASE_URL" {
		return // reported once, by check
	}
	if url, ok := r.resolved(n); ok {
		cfg.Database.URL = url
	}
}

func (r *reader) listen(cfg *Config, n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){
		"connections":          yamltree.Integer(&cfg.Listen.Connections, 1),
		"connections_per_peer": yamltree.Integer(&cfg.Listen.ConnectionsPerPeer, 1),
		"header_timeout":       yamltree.Duration(&cfg.Listen.HeaderTimeout),
		"idle_timeout":         yamltree.Duration(&cfg.Listen.IdleTimeout),
		"public":               yamltree.Value(&cfg.Listen.Public, address),
		"admin":                yamltree.Value(&cfg.Listen.Admin, address),
		"trusted_proxies":      yamltree.List(&cfg.Listen.TrustedProxies, prefix),
	})
}

func (r *reader) log(cfg *Config, n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){
		"level":  yamltree.Value(&cfg.Log.Level, level),
		"format": yamltree.Word(&cfg.Log.Format, "json", "text"),
		"events": yamltree.Value(&cfg.Log.Events, fold.Parse),
	})
}

func (r *reader) gate(cfg *Config, n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){
		"queue_events": yamltree.Integer(&cfg.Gate.QueueEvents, 1),
		"queue_bytes":  yamltree.Size(&cfg.Gate.QueueBytes),
		"deadline":     yamltree.Duration(&cfg.Gate.Deadline),
	})
}

func (r *reader) work(cfg *Config, n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){
		"workers":     yamltree.Integer(&cfg.Work.Workers, 1),
		"lease":       yamltree.Duration(&cfg.Work.Lease),
		"sweep_every": yamltree.Duration(&cfg.Work.SweepEvery),
	})
}
