package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/trials/rig"
	"github.com/oncegate/oncegate/migrations"
)

const (
	secret = "whsec_attack_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes
	schema = "attack"

	// sources is how many sources there are.
	sources = 20
)

// world is the binary that is attacked, with a PostgreSQL of its own.
type world struct {
	*rig.Ground
	public, admin string
	process       *rig.Process
	client        *http.Client
}

// newWorld builds and starts it all. What it started is in the world also when it fails.
func newWorld(ctx context.Context, binary string, files int) (*world, error) {
	ground, err := rig.NewGround(ctx, "attack", devpg.Config{Settings: map[string]string{"max_connections": "200", "shared_buffers": "256MB"}})
	if ground == nil {
		return nil, err
	}
	w := &world{Ground: ground, client: &http.Client{Timeout: 10 * time.Second}}
	if err != nil {
		return w, err
	}
	if binary == "" {
		binary = w.Binary
	}
	if err := migrations.Up(ctx, w.Server.DSN(), schema); err != nil {
		return w, fmt.Errorf("migrating: %w", err)
	}
	for _, address := range []*string{&w.public, &w.admin} {
		if *address, err = rig.FreeAddress(); err != nil {
			return w, err
		}
	}
	var config strings.Builder
	config.WriteString("targets: { nothing: { kind: noop } }\nsources:\n")
	for n := range sources {
		fmt.Fprintf(&config, "  s%02d: { provider: stripe, secrets: [env:ATTACK_SECRET], routes: [{ name: nothing, target: nothing }] }\n", n)
	}
	path := filepath.Join(w.Dir, "oncegate.yml")
	if err := os.WriteFile(path, []byte(config.String()), 0o600); err != nil {
		return w, fmt.Errorf("writing the configuration: %w", err)
	}
	w.process, err = rig.Start(w.log(), []string{
		"DATABASE_URL=" + w.Server.DSN(), "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_CONFIG=" + path, "ONCEGATE_PUBLIC=" + w.public,
		"ONCEGATE_ADMIN=" + w.admin, "ATTACK_SECRET=" + secret, "LOG_LEVEL=warn",
	}, "/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" serve --role receive`, files), binary)
	if err != nil {
		return w, err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := w.process.Ready(ready, "http://"+w.admin+"/readyz"); err != nil {
		return w, rig.Early(err, "./scripts/attack", w.log())
	}
	return w, nil
}

func (w *world) log() string { return filepath.Join(w.Dir, "serve.log") }

func (w *world) url(source int) string { return fmt.Sprintf("http://%s/in/s%02d", w.public, source) }

// Close ends what was started.
func (w *world) Close() error {
	var err error
	if w.process != nil {
		err = w.process.Stop(30 * time.Second)
	}
	return errors.Join(err, w.Ground.Close())
}

// fitting is how many connections at once fit into the limit of open files, of this
// program and of the binary.
func fitting(wanted int) (int, error) {
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

// metrics are those of the binary that have no labels, by name.
func (w *world) metrics(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.admin+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("asking for metrics: %w", err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for metrics: %w", err)
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			out[name] = value
		}
	}
	return out, lines.Err()
}

// leftover waits until nothing is left of the attacks and says what is.
func (w *world) leftover(ctx context.Context, before map[string]float64) error {
	for limit := time.Now().Add(2 * time.Minute); ; {
		now, err := w.metrics(ctx)
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
		rest(ctx, 200*time.Millisecond)
	}
}
