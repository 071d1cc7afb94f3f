package main

import (
	"context"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

const secret = "whsec_order_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes

// newWorld builds the binaries and starts PostgreSQL, which all variants share.
func newWorld(ctx context.Context, failpoints bool) (*lab.World, error) {
	return lab.NewWorld(ctx, lab.WorldConfig{Name: "order", Failpoints: failpoints, Postgres: devpg.Config{
		Settings: map[string]string{"max_connections": "500", "shared_buffers": "512MB"},
	}})
}

// serve starts a node in one role, with a fail point if one is named, and waits until it is ready. dsn is how the node
// reaches PostgreSQL; empty is directly.
func (c *campaign) serve(ctx context.Context, role, dsn, failpoint string) (*rig.Node, error) {
	return c.world.Serve(ctx, rig.NodeConfig{
		Name: c.schema + "." + role, Config: c.config, Schema: c.schema, Role: role, DSN: dsn, Failpoint: failpoint,
		Env: []string{"ORDER_SECRET=" + secret, "LOG_LEVEL=warn"},
	})
}
