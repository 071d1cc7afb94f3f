package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/server"
	"github.com/oncegate/oncegate/providers/catalog"
)

// serveReceiver is the receiver of the binary, which may be told to count nothing by minute: no configuration says that.
func serveReceiver(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("receiver", flag.ContinueOnError)
	uncounted := flags.Bool("uncounted", false, "count nothing by minute")
	collector := flags.String("collector", "", "export traces to this address")
	ratio := flags.Float64("ratio", 1, "the part of the traces that is exported")
	if err := flags.Parse(args); err != nil {
		return err
	}
	settings, err := config.Load(config.Options{Environ: os.Environ(), Catalog: new(catalog.Lazy)})
	if err != nil {
		return err
	}
	debug.SetGCPercent(400) // as the binary sets it
	cfg := app.Config{Settings: settings, Logger: slog.New(slog.DiscardHandler), Receive: true, Uncounted: *uncounted}
	if *collector != "" {
		if cfg.Traces, err = newTraces(ctx, *collector, *ratio); err != nil {
			return err
		}
	}
	s, err := server.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}

// receiver starts the receiver of this program as a separate process.
func (s *testbed) receiver(ctx context.Context, config string, args ...string) (*rig.Node, error) {
	n := &rig.Node{Log: s.log("receiver")}
	for _, address := range []*string{&n.Public, &n.Admin} {
		var err error
		if *address, err = rig.FreeAddress(); err != nil {
			return nil, err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cfg := s.node(config, "receive")
	cfg.Public, cfg.Admin = n.Public, n.Admin
	if n.Process, err = rig.Start(n.Log, s.Environ(&cfg), program, append([]string{"receiver"}, args...)...); err != nil {
		return nil, err
	}
	s.processes = append(s.processes, n.Process)
	return n, n.WaitReady(ctx)
}
