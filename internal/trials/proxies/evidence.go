package proxies

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Evidence is what there is in the end.
type Evidence struct {
	Probes     []Probe
	Phases     []Phase
	Deliveries map[string]*Delivery // to the source push, by event id

	// Events are the recorded events of the source push with their hashes, and Applied counts the rows of the ledger.
	Events  []Event
	Applied map[string]int
}

// Probe is a single delivery, or a question, that proxies are known to break.
type Probe struct{ Name, Want, Got string }

// Phase is a part of the steady deliveries: what was done meanwhile, how many deliveries began in it, and how the first attempts
// ended that ended in it without a 2xx.
type Phase struct {
	Name       string
	Deliveries int
	Failed     map[string]int
}

// failures is how many deliveries of a phase had no 2xx at first.
func (p *Phase) failures() (n int) {
	for _, count := range p.Failed {
		n += count
	}
	return n
}

// Delivery is a delivery and its repetitions.
type Delivery struct {
	SHA [sha256.Size]byte

	Acknowledged int
	Recorded     int // answers that called the event new
	Refused      int // answers of 4xx
}

// Event is an event as the database has it: its id, and the hash of the stored bytes.
type Event struct {
	ID  string
	SHA []byte
}

const readEvents = `
SELECT e.event_id, sha256(substring(b.body FROM e.body_offset + 1 FOR e.body_length))
FROM inbox_event e JOIN source s ON s.id = e.source_id JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id
WHERE s.name = 'push'`

func (v *Evidence) read(ctx context.Context, db *pgx.Conn) error {
	rows, err := db.Query(ctx, readEvents)
	if err == nil {
		v.Events, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
	}
	if err != nil {
		return fmt.Errorf("reading the events: %w", err)
	}
	v.Applied, err = rig.CountBy(ctx, db, `SELECT event, count(*) FROM ledger GROUP BY event`)
	return err
}
