package app

import (
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// addressValues returns the values for the expressions of an address, by the texts of the
// expressions.
func addressValues(programs map[string]*expression.Program) map[string]forward.Value {
	out := make(map[string]forward.Value, len(programs))
	for text, program := range programs {
		out[text] = func(call *effect.Call) (string, error) { return program.Text(jobs.RequestInput(call)) }
	}
	return out
}

// fetch returns how the answer that a route's effects are made of is fetched.
func (a *App) fetch(f *config.Fetch) (*jobs.Fetch, error) {
	cfg := f.Config()
	cfg.Values, cfg.Now = addressValues(f.Values), a.cfg.Now
	fetcher, err := forward.NewFetcher(cfg)
	if err != nil {
		return nil, err
	}
	return &jobs.Fetch{Fetcher: fetcher, Server: f.Server(), Timeout: f.Timeout}, nil
}

// forward makes the sender of a target that is reached over HTTP.
func (a *App) forward(t *config.Target, url string) (effect.Sender, error) {
	cfg := t.ForwardConfig()
	cfg.URL, cfg.Values, cfg.Now = url, addressValues(t.Values), a.cfg.Now
	forward, err := forward.New(cfg)
	if err != nil {
		return nil, err
	}
	return failingSender(forward), nil
}
