//go:build !failpoint

package app

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A released binary has no fail points.

func failingAcquire(*pgxpool.Pool) gate.Acquire { return nil }

func failingNow(now func() time.Time) func() time.Time { return now }

func unfenced() bool { return false }

func failingStandbys(s *session.Standbys) *session.Standbys { return s }

func failingGate(gate receiver.Accepter) receiver.Accepter { return gate }

func failingSender(sender effect.Sender) effect.Sender { return sender }

func failingPool(_ context.Context, pool *pgxpool.Pool) (*pgxpool.Pool, error) { return pool, nil }
