package read

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// RefusalGroup counts the refusals of one source, cause and peer that are kept.
type RefusalGroup struct {
	Tally // of a flood, only a sample is kept

	Source string `json:"source"`
	Cause  string `json:"cause"`

	// Peer is where they came from: an IPv4 address, or the /64 network of an IPv6 address. It is empty if that is not known.
	Peer string `json:"peer,omitempty"`

	// Diagnosis is the diagnosis of the example.
	Diagnosis string `json:"diagnosis,omitempty"`

	// AcknowledgedAt, AcknowledgedBy and AcknowledgedWhy are set if an operator has acknowledged the source, cause and peer, so that they
	// wait for nobody.
	AcknowledgedAt  *time.Time `json:"acknowledged_at,omitempty"`
	AcknowledgedBy  string     `json:"acknowledged_by,omitempty"`
	AcknowledgedWhy string     `json:"acknowledged_why,omitempty"`

	// Tenant is the tenant of the source; empty if it has none.
	Tenant string `json:"tenant,omitempty"`
}

// The groups of one window, through the index of sources.
const (
	groupRefusals = selectTally + `s.name, g.cause, g.peer, (SELECT f.diagnosis FROM refusal f WHERE f.id = g.example), a.at,
    coalesce(a.actor, ''), coalesce(a.reason, ''), s.tenant
FROM source s
CROSS JOIN LATERAL (
    SELECT o.cause, coalesce(o.peer, '') AS peer, count(*) AS count, min(o.received_at) AS first, max(o.received_at) AS last, max(o.id::text)::uuid AS example
    FROM (
        SELECT o.id, o.cause, o.peer, o.received_at
        FROM refusal o
        WHERE o.source_id = s.id`
	groupRefusalsBy = `
        ORDER BY o.source_id DESC, o.id DESC OFFSET 0) o
    GROUP BY 1, 2) g
LEFT JOIN refusal_acknowledgement a ON a.source_id = s.id AND a.cause = g.cause AND a.peer = g.peer`
)

// RefusalGroups counts the refusals that are kept by source, cause and peer: see [groupsOf].
func (l *Lister) RefusalGroups(ctx context.Context, f RefusalFilter) (page Page[RefusalGroup], err error) {
	var sources, narrow row.Predicates
	sources.AddIf(f.Source != "", `s.name = ?`, f.Source)
	sources.AddIf(f.Tenant != "", `s.tenant = ?`, f.Tenant)
	sources.AddIf(l.tenant != "", `s.tenant = ?`, l.tenant)
	narrow.AddIf(f.Cause != "", `o.cause = ?`, f.Cause)
	narrow.AddIf(f.Peer != "", `o.peer = ?`, f.Peer)
	narrow.AddIf(!f.Since.IsZero(), `o.id >= ?`, idSince(f.Since))
	page, err = groupsOf(ctx, l, l.edgeOfRefusals(sources, f.Since), func(g *RefusalGroup) any { return [3]string{g.Source, g.Cause, g.Peer} },
		func(_ context.Context, from, to inbox.ID) (*row.Statement, error) {
			beyond := narrow.With()
			beyond.AddIf(!from.IsZero(), `o.id < ?`, from)
			beyond.AddIf(!to.IsZero(), `o.id >= ?`, to)
			s := new(row.Statement)
			return s.Add(groupRefusals).And(beyond).Add(groupRefusalsBy).Where(sources), nil
		})
	if err != nil {
		return page, fmt.Errorf("grouping refusals: %w", err)
	}
	return page, nil
}
