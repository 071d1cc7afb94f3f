package app

import (
	"github.com/oncegate/oncegate/cmd/internal/config"
	"github.com/oncegate/oncegate/jobs/effect"
)

// forward makes the sender of a target that is reached over HTTP.
func (a *App) forward(t *config.Target, url string) (effect.Sender, error) {
	keys := t.Keys()
	sign := make([]string, len(keys))
	for i, key := range keys {
		sign[i] = string(key.Value)
	}
	forward, err := effect.NewForward(effect.ForwardConfig{
		URL: url, Method: t.Method, Allow: t.Allow, Sign: sign, Idempotent: t.Idempotent, KeyHeader: t.KeyHeader, Headers: t.Headers,
		ReplayedHeader: t.ReplayedHeader, KeepReply: t.KeepReply, Now: a.cfg.Now,
	})
	if err != nil {
		return nil, err
	}
	return failingSender(forward), nil
}
