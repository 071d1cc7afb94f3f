package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/mail"
	"github.com/oncegate/oncegate/jobs/effect/suppress"
)

// makeSuppressions makes the store of suppressed addresses, which is checked before every message.
func (a *App) makeSuppressions() (err error) {
	a.suppressions, err = suppression.New(suppression.Config{
		Pool: a.workPool, Keyring: a.keys, HashOnly: a.settings.Suppressions.HashOnly, Now: a.cfg.Now,
	})
	if err != nil {
		return err
	}
	a.suppressedAddresses = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oncegate_suppressed_addresses_total", Help: "Addresses that events had suppressed that were not before, by reason.",
	}, []string{"reason"})
	for _, reason := range suppression.Reasons() {
		a.suppressedAddresses.WithLabelValues(string(reason))
	}
	return a.collect(a.suppressedAddresses)
}

// suppressed returns the function that reports whether the recipient of a rendered message of the
// target is suppressed.
func (a *App) suppressed(target string) func(context.Context, []byte) (bool, error) {
	return func(ctx context.Context, rendered []byte) (bool, error) {
		to, err := mail.RecipientOf(rendered)
		if err != nil {
			return false, nil //nolint:nilerr // the sender names the fault of the message
		}
		return a.suppressions.Suppressed(ctx, target, to)
	}
}

// suppressTarget makes a target of kind suppress.
func (a *App) suppressTarget(t *config.Target) (effect.Transactional, error) {
	s := t.Suppress
	return suppress.New(suppress.Config{
		Keep:      s.Keep,
		Addresses: func(call *effect.Call) ([]string, error) { return s.Address.Texts(jobs.Input(call)) },
		Reason: func(call *effect.Call) (string, error) {
			if s.Reason != "" {
				return string(s.Reason), nil
			}
			texts, err := s.ReasonOf.Texts(jobs.Input(call))
			if err == nil && len(texts) != 1 {
				err = errors.New("it returns a list, want one reason")
			}
			if err != nil {
				return "", err
			}
			return texts[0], nil
		},
		Add: func(ctx context.Context, tx pgx.Tx, entries []suppress.Entry) error {
			return a.suppressTx(ctx, tx, s.Target, entries)
		},
	})
}

func (a *App) suppressTx(ctx context.Context, tx pgx.Tx, target string, entries []suppress.Entry) error {
	rows := make([]suppression.Entry, len(entries))
	for i, e := range entries {
		event, err := inbox.ParseID(e.Event)
		if err != nil {
			return err
		}
		rows[i] = suppression.Entry{Address: e.Address, Target: target, Reason: suppression.Reason(e.Reason), Event: event, Expires: e.Expires}
	}
	added, err := a.suppressions.AddTx(ctx, tx, rows)
	if errors.Is(err, suppression.ErrEntry) {
		return fmt.Errorf("%w: %w", suppress.ErrEntry, err)
	}
	if err == nil && added.Added > 0 {
		a.suppressedAddresses.WithLabelValues(entries[0].Reason).Add(float64(added.Added))
	}
	return err
}
