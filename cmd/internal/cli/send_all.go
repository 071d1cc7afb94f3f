package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/delivery"
)

// sendAll sends one delivery to each source of the running `oncegate dev`, or of the configuration:
// the fixture of its provider, or else the provider's example.
func (s *shell) sendAll(ctx context.Context, f sendFlags) error {
	cfg, base, err := s.everySource()
	if err != nil {
		return err
	}
	var out []delivered
	for _, source := range cfg.Sources {
		d, err := s.sendOne(ctx, source, base, f)
		if err != nil {
			if own, ok := errors.AsType[*commandError](err); !ok || own.exit != exitUsage {
				return err
			}
			d = delivered{Outcome: notSent}
			fmt.Fprintf(s.err, "oncegate: %s: not sent: %s\n", clean(source.Name), clean(oneLine(err.Error())))
		}
		d.Number, d.Source = len(out)+1, source.Name
		out = append(out, d)
	}
	if len(out) == 0 {
		return errorf(errorcode.Config, "the configuration has no source")
	}
	if err := s.showDelivered(out); err != nil {
		return err
	}
	return verdict(out, base)
}

// everySource returns the configuration whose sources get a delivery, and the address at which they
// take it.
func (s *shell) everySource() (cfg *config.Config, base string, err error) {
	if state, running := s.readDevState(); running && s.toDev(state, sendFlags{}) {
		if cfg, err = s.runningConfig(state); err != nil {
			return nil, "", unreadableDev(err)
		}
		for _, source := range cfg.Sources {
			if err := state.sameSecret(source); err != nil {
				return nil, "", err
			}
		}
		return cfg, state.Public, nil
	}
	if s.unconfigured() {
		return nil, "", errNowhere
	}
	if cfg, err = s.load(); err != nil {
		return nil, "", err
	}
	return cfg, loopback(cfg.Listen.Public), nil
}

// sendOne sends one delivery to a source.
func (s *shell) sendOne(ctx context.Context, source *config.Source, base string, f sendFlags) (delivered, error) {
	to, err := s.toSource(source, f, base)
	if err != nil {
		return delivered{}, err
	}
	f.payload = delivery.FixtureOf(to.provider.Name())
	draft, err := s.draft(to.provider, f)
	if err != nil {
		return delivered{}, err
	}
	request, err := signFor(to, draft, f.mode, f.tamper)
	if err != nil {
		return delivered{}, err
	}
	return post(ctx, request, 1, draft.EventID, f.timeout), nil
}
