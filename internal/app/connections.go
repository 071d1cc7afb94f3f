package app

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/jobs"
)

// filesBeside is the number of open files of this process that are neither connections of senders
// nor counted individually: logs, the private listener, and files of the runtime.
const filesBeside = 64

// makeConnections makes the limits of the public listener's connections. If the limit of open files
// leaves no room for the configured number, it allows fewer.
func (a *App) makeConnections() (*receiver.Connections, error) {
	listen := a.settings.Listen
	most, wanted := listen.Connections, listen.Connections
	if wanted == 0 {
		most, wanted = receiver.DefaultConnections, receiver.DefaultConnections
	}
	if files := openFiles(); files > 0 {
		most = min(wanted, max(files-a.filesElsewhere(), filesBeside))
		if most < wanted && (listen.Connections > 0 || most < receiver.DefaultConnections/4) {
			a.log.Warn("the limit of open files leaves room for fewer connections of senders than are wanted: raise it (ulimit -n, LimitNOFILE=)",
				slog.Int("files", files), slog.Int("connections", most), slog.Int("wanted", wanted))
		}
	}
	connections, err := receiver.NewConnections(receiver.ConnectionsConfig{
		Logger: a.log, Most: most, MostOfPeer: min(listen.ConnectionsPerPeer, most), TrustedProxies: listen.TrustedProxies, Now: a.cfg.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("the public listener's %w", err)
	}
	return connections, nil
}

// filesElsewhere returns how many files this process may have open in addition to connections of
// senders: its connections to the database, and the connections of its workers to targets.
func (a *App) filesElsewhere() int {
	files := filesBeside
	for _, name := range a.settings.DatabaseNames() {
		part := a.settings.Part(name)
		files += int(part.Database.GateConnections + part.Database.WorkConnections + part.Database.QueueConnections)
		if a.cfg.Work {
			files += cmp.Or(part.Work.Workers, jobs.DefaultMaxWorkers)
		}
	}
	return files
}

// NewPublicServer makes the server of the public listener for a process with several Apps. cfg.Settings is the configuration of the whole
// process. NewPublicServer registers the metrics of the connections with reg.
func NewPublicServer(cfg Config, handler http.Handler, reg prometheus.Registerer) (*http.Server, *receiver.Connections, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &App{cfg: cfg, settings: cfg.Settings, log: cfg.Logger}
	public, connections, err := a.publicServer(handler)
	if err != nil {
		return nil, nil, err
	}
	return public, connections, reg.Register(receiver.NewConnectionsCollector(connections.Stats))
}

// publicServer makes the public listener's server and the limits of its connections.
func (a *App) publicServer(handler http.Handler) (*http.Server, *receiver.Connections, error) {
	connections, err := a.makeConnections()
	if err != nil {
		return nil, nil, err
	}
	public, err := receiver.NewServer(receiver.ServerConfig{
		Handler: handler, Logger: a.log, Connections: connections,
		ReadHeaderTimeout: a.settings.Listen.HeaderTimeout, IdleTimeout: a.settings.Listen.IdleTimeout, WriteTimeout: a.writeTimeout(),
	})
	return public, connections, err
}

// NewRegistry makes a registry with the metrics that every process has.
func NewRegistry(version string) *prometheus.Registry {
	registry := newRegistry()
	registry.MustRegister(newBuildInfo(version))
	return registry
}

// writeTimeout returns enough time to read a body, to commit it and to wait for the result of an
// operation, which takes at most 45 s.
func (a *App) writeTimeout() time.Duration {
	body := a.settings.Bodies.Resolved(len(a.settings.Sources)).BodyTimeout
	return body + cmp.Or(a.settings.Gate.Deadline, 8*time.Second) + 50*time.Second
}
