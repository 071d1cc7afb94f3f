package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ON CONFLICT DO UPDATE returns the id of an existing row.
const upsertRouting = `
INSERT INTO routing (digest, targets) VALUES ($1, $2)
ON CONFLICT ON CONSTRAINT routing_digest_key DO UPDATE SET digest = excluded.digest
RETURNING id`

// RegisterRouting writes to which target a process sends the effects of each route, by
// the route's id, and returns the id of that routing. Lease tokens contain it, so that
// every process can tell where an attempt of another one was sent.
func RegisterRouting(ctx context.Context, pool *pgxpool.Pool, targets map[int32]string) (id int32, err error) {
	text, err := json.Marshal(targets) // members are sorted
	if err != nil {
		return 0, fmt.Errorf("writing the targets of routes: %w", err)
	}
	digest := sha256.Sum256(text)
	if err := pool.QueryRow(ctx, upsertRouting, digest[:], text).Scan(&id); err != nil {
		return 0, fmt.Errorf("writing the targets of routes: %w", err)
	}
	return id, nil
}

const readRouting = `SELECT targets FROM routing WHERE id = $1`

// tokenMark begins a lease token that says under which routing the claim was made.
// Stored: never change.
const tokenMark = 0x6f67 // "og"

// token makes a lease token that carries the routing of this process.
func (e *Effects) token() ID {
	token := NewToken()
	if e.routing > 0 {
		binary.BigEndian.PutUint16(token[0:], tokenMark)
		binary.BigEndian.PutUint32(token[2:], uint32(e.routing))
	}
	return token
}

// routingOf returns the routing under which a claim was made; 0 if it is unknown.
func routingOf(token ID) int32 {
	if binary.BigEndian.Uint16(token[0:]) != tokenMark {
		return 0
	}
	return int32(binary.BigEndian.Uint32(token[2:]))
}

// elsewhere returns the target to which the attempt of the lease token was sent, if this
// process has another one for the route; empty if not.
func (e *Effects) elsewhere(ctx context.Context, route int32, token ID) (string, error) {
	routing, own := routingOf(token), e.routes[route].Target
	if routing == 0 || routing == e.routing || own == "" {
		return "", nil
	}
	targets, ok := e.routings.Load(routing)
	if !ok {
		read, err := e.readRouting(ctx, routing)
		if err != nil || read == nil {
			return "", err
		}
		targets, _ = e.routings.LoadOrStore(routing, read)
	}
	if target := targets.(map[int32]string)[route]; target != own {
		return target, nil
	}
	return "", nil
}

func (e *Effects) readRouting(ctx context.Context, routing int32) (targets map[int32]string, err error) {
	var text []byte
	err = e.pool.QueryRow(ctx, readRouting, routing).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &targets)
	}
	if err != nil {
		return nil, fmt.Errorf("reading where an attempt was sent: %w", err)
	}
	return targets, nil
}

// Elsewhere returns the target to which an earlier attempt of the claim's effect was
// sent and at which it may have happened, if this process would send it to another one;
// empty if not.
func (e *Effects) Elsewhere(ctx context.Context, claim *Claim) (target string, err error) {
	if claim.UnknownSince.IsZero() {
		return "", nil
	}
	if target, err = e.elsewhere(ctx, claim.RouteID, claim.unknownLease); err != nil {
		return "", fmt.Errorf("effect %s: %w", claim.Effect, err)
	}
	return target, nil
}
