package app

import (
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// forward makes the sender of a target that is reached over HTTP.
func (a *App) forward(t *config.Target, url string) (effect.Sender, error) {
	cfg := t.ForwardConfig()
	cfg.URL, cfg.Now = url, a.cfg.Now
	forward, err := forward.New(cfg)
	if err != nil {
		return nil, err
	}
	return failingSender(forward), nil
}
