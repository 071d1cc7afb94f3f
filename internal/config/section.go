package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/internal/fold"
)

func (r *reader) database(cfg *Config, n ast.Node) {
	const where = "database"
	r.object(n, where, map[string]func(field){
		"url": func(f field) {
			text, ok := r.text(f.value, where+".url")
			if !ok || r.env.has("ONCEGATE_DATABASE_URL") || (r.env.has("DATABASE_URL") && text == "env:DATABASE_URL") {
				return
			}
			if text == "env:DATABASE_URL" {
				return // reported once, by check
			}
			if strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:") {
				value, err := r.env.resolve(text)
				if err != nil {
					r.at(f.value, "%s.url: %v", where, err)
					return
				}
				text = value
			}
			cfg.Database.URL = text
		},
		"schema":            func(f field) { parsed(r, f.value, where+".schema", &cfg.Database.Schema, schema) },
		"durability":        func(f field) { parsed(r, f.value, where+".durability", &cfg.Database.Durability, durability) },
		"gate_connections":  func(f field) { parsed(r, f.value, where+"."+f.name, &cfg.Database.GateConnections, connections(4)) },
		"work_connections":  func(f field) { parsed(r, f.value, where+"."+f.name, &cfg.Database.WorkConnections, connections(2)) },
		"queue_connections": func(f field) { parsed(r, f.value, where+"."+f.name, &cfg.Database.QueueConnections, connections(8)) },
	})
}

func (r *reader) listen(cfg *Config, n ast.Node) {
	const where = "listen"
	r.object(n, where, map[string]func(field){
		"connections":          r.count(&cfg.Listen.Connections, where, 1),
		"connections_per_peer": r.count(&cfg.Listen.ConnectionsPerPeer, where, 1),
		"header_timeout":       r.duration(&cfg.Listen.HeaderTimeout, where),
		"idle_timeout":         r.duration(&cfg.Listen.IdleTimeout, where),
		"public":               func(f field) { parsed(r, f.value, where+".public", &cfg.Listen.Public, address) },
		"admin":                func(f field) { parsed(r, f.value, where+".admin", &cfg.Listen.Admin, address) },
		"trusted_proxies": func(f field) {
			for i, item := range r.list(f.value, where+".trusted_proxies") {
				var p netip.Prefix
				before := len(r.problems)
				parsed(r, item, fmt.Sprintf("%s.trusted_proxies[%d]", where, i), &p, prefix)
				if len(r.problems) == before {
					cfg.Listen.TrustedProxies = append(cfg.Listen.TrustedProxies, p)
				}
			}
		},
	})
}

func (r *reader) log(cfg *Config, n ast.Node) {
	const where = "log"
	r.object(n, where, map[string]func(field){
		"level":  func(f field) { parsed(r, f.value, where+".level", &cfg.Log.Level, level) },
		"format": func(f field) { parsed(r, f.value, where+".format", &cfg.Log.Format, logFormat) },
		"events": func(f field) { parsed(r, f.value, where+".events", &cfg.Log.Events, fold.Parse) },
	})
}

func (r *reader) gate(cfg *Config, n ast.Node) {
	const where = "gate"
	r.object(n, where, map[string]func(field){
		"queue_events": r.count(&cfg.Gate.QueueEvents, where, 1),
		"queue_bytes":  func(f field) { parsed(r, f.value, where+".queue_bytes", &cfg.Gate.QueueBytes, positiveSize) },
		"deadline":     r.duration(&cfg.Gate.Deadline, where),
	})
}

func (r *reader) work(cfg *Config, n ast.Node) {
	const where = "work"
	r.object(n, where, map[string]func(field){
		"workers":     r.count(&cfg.Work.Workers, where, 1),
		"lease":       r.duration(&cfg.Work.Lease, where),
		"sweep_every": r.duration(&cfg.Work.SweepEvery, where),
	})
}
