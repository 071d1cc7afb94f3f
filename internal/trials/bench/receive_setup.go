package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// poolSize is the number of connections of both receivers. The gate uses two of them.
const poolSize = 16

// receiveBench is the testbed with both receivers.
type receiveBench struct {
	options
	*testbed
	config       string
	runs         uint32
	cellsDone    int // how many measurements are done
	cellsPlanned int

	gate         *rig.Node
	other        *rig.Node // of the revision to compare with, if any
	naive        *rig.Process
	naiveAddress string
	bare         *rig.Process
	bareAddress  string
}

// setUp starts everything on the testbed.
func setUp(ctx context.Context, o options, s *testbed) (*receiveBench, error) {
	b := &receiveBench{options: o, testbed: s}
	err := b.pgbenchTable(ctx)
	if err != nil {
		return nil, err
	}
	if b.config, err = b.WriteFile("oncegate.yml", configuration); err != nil {
		return nil, err
	}
	if b.gate, err = b.start(ctx, "receive"); err != nil {
		return nil, err
	}
	if o.against != "" {
		return b, b.startAgainst(ctx)
	}
	b.naive, b.naiveAddress, err = b.startReceiver(ctx, "naive", "--database", b.DSN(), "--connections", strconv.Itoa(poolSize))
	if err != nil {
		return b, err
	}
	b.bare, b.bareAddress, err = b.startReceiver(ctx, "bare")
	return b, err
}

func (b *receiveBench) pgbenchTable(ctx context.Context) error {
	const table = `CREATE SCHEMA bench; CREATE TABLE bench.row (event_id text PRIMARY KEY, received_at timestamptz NOT NULL DEFAULT now(), body text NOT NULL)`
	if _, err := b.db.Exec(ctx, table); err != nil {
		return fmt.Errorf("making pgbench's table: %w", err)
	}
	// Compressed like the gate's own bodies, where the server supports it.
	_, _ = b.db.Exec(ctx, `ALTER TABLE bench.row ALTER COLUMN body SET COMPRESSION lz4`)
	return nil
}

const configuration = `
targets:
  nothing: { kind: noop }
sources:
  stripe:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    routes: [{ name: nothing, types: ["*"], target: nothing }]
`

// start starts the real binary in one role.
func (b *receiveBench) start(ctx context.Context, role string) (*rig.Node, error) {
	env := append([]string{"ONCEGATE_GATE_CONNECTIONS=" + strconv.Itoa(poolSize), "ONCEGATE_WORKERS=500"}, b.env...)
	return b.serve(ctx, b.config, role, env...)
}

// startReceiver starts a receiver of this program for comparison.
func (b *receiveBench) startReceiver(ctx context.Context, name string, args ...string) (p *rig.Process, address string, err error) {
	if address, err = rig.FreeAddress(); err != nil {
		return nil, "", err
	}
	if p, err = b.self(append([]string{name, "--listen", address, "--secret", secretValue}, args...)...); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := p.Listening(ctx, address); err != nil {
		return nil, "", fmt.Errorf("starting the %s receiver: %w (log: %s)", name, err, rig.TailFile(b.log(name)))
	}
	return p, address, nil
}
