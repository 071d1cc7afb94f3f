package gate

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ErrNoStandby says that a durability asks for standbys and the server names none, so that a commit waited for no standby.
var ErrNoStandby = errors.New("the durability is quorum or apply, and the server names no synchronous standby: " +
	"set synchronous_standby_names at the server, or durability: server to acknowledge without a standby")

// A transaction of a durability that is weaker than the sessions' waits for less.
const setCommit = `SELECT set_config('synchronous_commit', $1, true)`

// queueReadStandbys reads, after a COMMIT of the batch, whether the server names synchronous standbys. A server process reads a
// changed configuration between two statements, and a setting that is emptied ends the waits of all commits without a warning.
// Reading it after the COMMIT notices that, and reading it before would not.
func queueReadStandbys(b *pgx.Batch, named *bool) {
	*named = false
	b.Queue(readStandbys).QueryRow(func(r pgx.Row) error { return r.Scan(named) })
}

// publicErrorText is an error in a text that names neither address nor user.
func publicErrorText(err error) string {
	if errors.Is(err, ErrNoStandby) {
		return ErrNoStandby.Error()
	}
	return row.PublicErrorText(err)
}

// Durable returns an error while the gate cannot acknowledge the deliveries of a durability for which standbys are needed: the server
// names none, or their commits have failed for [FailingAfter] and one of them in the last minute. Deliveries of weaker durabilities may
// be acknowledged at the same time.
func (g *Gate) Durable() error {
	now := g.cfg.Clock.Local()
	for _, l := range g.lanes {
		if !l.durability.NeedsStandby() {
			continue
		}
		if !g.standby.Load() {
			return fmt.Errorf("durability %s: %w", l.durability, ErrNoStandby)
		}
		if err := l.ready(now); err != nil && now.Sub(l.health.lastFailure()) < time.Minute {
			return fmt.Errorf("durability %s: %w", l.durability, err)
		}
	}
	return nil
}

func (h *health) lastFailure() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Weakest returns the weakest durability of the gate's deliveries. While it can be met, the process is of use.
func (g *Gate) Weakest() inbox.Durability { return g.lanes[0].durability }
