package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox/pause"
)

// watchPauses reads the pauses before this process takes any work, and then every second.
func (a *App) watchPauses(ctx context.Context) error {
	a.pauses = pause.NewWatch(a.adminPool)
	if a.unasked {
		return nil
	}
	begun, _, err := a.pauses.Look(ctx)
	if err != nil {
		return err
	}
	a.tellPauses(ctx, "paused", begun)
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oncegate_oldest_pause_seconds", Help: "How long the source, route or target that has been paused longest has been paused; 0 if nothing is.",
	}, func() float64 {
		if oldest := a.pauses.Oldest(); !oldest.IsZero() {
			return max(a.clock.Now().Sub(oldest).Seconds(), 0)
		}
		return 0
	})
	if err := a.collect(age); err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "pauses", run: func(ctx context.Context) error {
		a.every(ctx, "pauses", pause.Every, a.lookAtPauses)
		return nil
	}})
	return nil
}

func (a *App) lookAtPauses(ctx context.Context) {
	begun, ended, err := a.pauses.Look(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.log.WarnContext(ctx, "what is paused could not be read: the last answer stays in force", slog.Any("error", err))
		}
		return
	}
	a.tellPauses(ctx, "paused", begun)
	a.tellPauses(ctx, "resumed", ended)
	if len(ended) > 0 && a.work != nil {
		a.work.Resumed()
	}
}

// tellPauses logs each pause that has begun or ended.
func (a *App) tellPauses(ctx context.Context, message string, pauses pause.Pauses) {
	for i := range pauses {
		p := &pauses[i]
		a.log.InfoContext(ctx, message, slog.String(string(p.Kind), p.Name), slog.String("by", p.By), slog.String("reason", p.Reason), slog.Time("since", p.Since)) //nolint:sloglint // one of the constants above
	}
}
