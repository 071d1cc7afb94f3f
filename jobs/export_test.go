package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// GiveWay is what decides how fast replays may go.
type GiveWay = giveWay

// NewGiveWay makes one.
func NewGiveWay(read Deliveries, now func() time.Time) *GiveWay {
	return &giveWay{read: read, now: now}
}

// Next and Took are what the worker calls around a step.
func (g *giveWay) Next() (rest time.Duration, atMost float32) { return g.next() }

// Took counts the items of a step.
func (g *giveWay) Took(items int) { g.took(items) }

// MostAhead is how many wake-ups of replays may wait for a worker before a step.
const MostAhead = mostAhead

// LookAtJobs is what a process does every second in which there were wake-ups.
func LookAtJobs(ctx context.Context, pool *pgxpool.Pool) error {
	return (&analyzer{pool: pool}).look(ctx)
}
