package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

const (
	secret = "whsec_attack_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes

	// sources is the number of sources.
	sources = 20
)

// sourceName is the name of a source. Deliveries take the sources in turn.
func sourceName(n int) string { return fmt.Sprintf("s%02d", n%sources) }

// world is the node under attack.
type world struct {
	*lab.Campaign
	node *rig.Node
}

// prepare makes the schema and the configuration, and starts the node.
func (w *world) prepare(ctx context.Context, files int) error {
	if err := w.Prepare(ctx); err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("targets: { nothing: { kind: noop } }\nsources:\n")
	for n := range sources {
		fmt.Fprintf(&text, "  %s: { provider: stripe, secrets: [env:ATTACK_SECRET], routes: [{ name: nothing, target: nothing }] }\n", sourceName(n))
	}
	err := w.Configure("%s", text.String())
	if err == nil {
		w.node, err = w.Serve(ctx, rig.NodeConfig{Role: "receive", OpenFiles: files})
	}
	return err
}

// fitOpenFiles returns how many connections fit into this program's limit of open files, at most as many as are wanted.
func fitOpenFiles(wanted int) (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	const beside = 500
	if limit.Cur < 2*beside {
		return 0, fmt.Errorf("the limit of open files is %d: raise it (ulimit -n 8192)", limit.Cur)
	}
	if most := int(min(limit.Cur, 1<<20)) - beside; wanted > most {
		fmt.Printf("only %d connections at once of %d: the limit of open files is %d\n", most, wanted, limit.Cur)
		return most, nil
	}
	return wanted, nil
}

// waitForLeftovers waits until the node has released the memory, deliveries, goroutines and files of the attacks. If it
// has not done so after two minutes, the error names what it has not released.
func (w *world) waitForLeftovers(ctx context.Context, before map[string]float64) error {
	for limit := time.Now().Add(2 * time.Minute); ; {
		now, err := w.node.Metrics(ctx)
		if err != nil {
			return err
		}
		var left []error
		for name, slack := range map[string]float64{"oncegate_body_in_flight_bytes": 0, "oncegate_deliveries_in_flight": 0, "go_goroutines": 20, "process_open_fds": 20} {
			if now[name] > before[name]+slack {
				left = append(left, fmt.Errorf("%s is %.0f, and was %.0f", name, now[name], before[name]))
			}
		}
		if len(left) == 0 {
			fmt.Printf("afterwards: %.0f goroutines, %.0f open files, %.0f MiB resident, %.0f connections shed, %.0f refused\n", now["go_goroutines"], now["process_open_fds"],
				now["process_resident_memory_bytes"]/(1<<20), now["oncegate_shed_connections_total"], now["oncegate_refused_connections_total"])
			return nil
		}
		if time.Now().After(limit) || ctx.Err() != nil {
			return errors.Join(left...)
		}
		rig.Pause(ctx, 200*time.Millisecond)
	}
}
