package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/session"
)

// openGatePool opens the gate's pool. Its sessions commit with the strictest durability of the configuration: the gate waits for less
// where a class asks for less, and nothing that it writes is weaker by omission.
func (a *App) openGatePool() (err error) {
	all := a.settings.Durabilities()
	strictest := all[len(all)-1]
	a.gatePool, err = a.openPoolWithin(context.Background(), "gate pool", session.PoolGate, a.settings.Database.GateConnections, 0,
		session.Commits(strictest.SynchronousCommit()))
	return err
}

// newDurabilityMetric makes the gauge that says whether deliveries of every durability can be acknowledged.
func (a *App) newDurabilityMetric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oncegate_durability_met",
		Help: "1, or 0 while the server names no synchronous standby, or commits that wait for one fail, although database.durability or a class asks for it.",
	}, func() float64 {
		if a.gate.Durable() != nil {
			return 0
		}
		return 1
	})
}

// warnOfDurability logs which keys ask for standbys that the server does not name.
func (a *App) warnOfDurability(ctx context.Context) {
	if err := inbox.CheckStandbys(ctx, a.adminPool, a.settings.NeedStandby()); err != nil {
		a.log.ErrorContext(ctx, "deliveries will not be acknowledged", slog.Any("error", err))
	}
}
