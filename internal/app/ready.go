package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/internal/session"
)

// How often the process checks that no pooler shares its sessions. A pooler may be reconfigured
// while it has clients. Without a pooler, only new connections can lead to one.
const (
	provedEvery       = 5 * time.Second
	provedDirectEvery = 30 * time.Second
)

// proveSessions refuses a database whose sessions a pooler shares, and repeats the check once the
// process is started. If the check cannot be made, nothing is refused.
func (a *App) proveSessions(ctx context.Context) error {
	if err := a.sessions.Prove(ctx, a.adminPool); errors.Is(err, session.ErrShared) {
		return err
	}
	a.starts = append(a.starts, step{name: "sessions", run: func(ctx context.Context) error {
		proved := a.cfg.Now()
		a.every(ctx, "sessions", provedEvery, func(ctx context.Context) {
			if a.sessions.Direct() && a.cfg.Now().Sub(proved) < provedDirectEvery {
				return
			}
			proved = a.cfg.Now()
			before := a.sessions.Err()
			switch now := a.sessions.Prove(ctx, a.adminPool); {
			case errors.Is(now, session.ErrNotProved):
			case now != nil && before == nil:
				a.log.ErrorContext(ctx, "nothing is done until sessions are whole again", slog.Any("error", now))
			case now == nil && before != nil:
				a.log.InfoContext(ctx, "the pooler shares sessions no more")
			}
		})
		return nil
	}})
	return nil
}

// makeCommitProbe makes the probe that tries commits, on the gate's pool if there is a gate.
func (a *App) makeCommitProbe() error {
	cfg := gate.CommitProbeConfig{Pool: a.adminPool, Asking: a.adminPool, Logger: a.log, Now: a.cfg.Now}
	if a.gate != nil {
		cfg.Pool, cfg.Committed, cfg.Durability = a.gatePool, a.committed, a.gate.Weakest()
	}
	var err error
	if a.commits, err = gate.NewCommitProbe(cfg); err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "commit probe", run: func(ctx context.Context) error {
		a.cleanups.add("commit probe", a.commits.Stop)
		return a.commits.Start(ctx)
	}})
	return nil
}

// committed says that a commit on the gate's pool has succeeded, which began at the given time, and whether the server then named
// synchronous standbys.
func (a *App) committed(began time.Time, named bool) {
	a.gate.Committed(began, named)
	if a.buffered != nil {
		a.buffered.Committed()
	}
}

// checkDatabase returns why the database cannot be written now.
func (a *App) checkDatabase(ctx context.Context) error {
	err := inbox.Writable(ctx, a.adminPool)
	setting, differs := errors.AsType[*session.SettingError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, inbox.ErrStandby), errors.Is(err, inbox.ErrReadOnly):
		// The connections of the other pools lead to the same server. What they are doing ends
		// first.
		if a.started.Load() {
			for _, pool := range []*pgxpool.Pool{a.gatePool, a.workPool, a.queuePool} {
				if pool != nil {
					pool.Reset()
				}
			}
		}
		return err
	case errors.Is(err, session.ErrShared):
		return session.ErrShared
	case errors.Is(err, session.ErrBehind):
		return session.ErrBehind
	case errors.Is(err, session.ErrOtherSystem):
		return session.ErrOtherSystem
	case errors.Is(err, session.ErrNoPrimary):
		return session.ErrNoPrimary
	case differs:
		return setting
	}
	return errors.New("not reachable") // the cause may contain the address and user
}
