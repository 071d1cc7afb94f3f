package app

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

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
	db := a.settings.Database
	files := filesBeside + int(db.GateConnections+db.WorkConnections+db.QueueConnections)
	if a.cfg.Work {
		files += cmp.Or(a.settings.Work.Workers, jobs.DefaultMaxWorkers)
	}
	return files
}

// writeTimeout returns enough time to read a body, to commit it and to wait for the result of an
// operation, which takes at most 45 s.
func (a *App) writeTimeout() time.Duration {
	body := a.settings.Bodies.Resolved(len(a.settings.Sources)).BodyTimeout
	return body + cmp.Or(a.settings.Gate.Deadline, 8*time.Second) + 50*time.Second
}
