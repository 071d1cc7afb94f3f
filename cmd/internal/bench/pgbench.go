package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// What pgbench does: one row of 2 KB in one transaction, the least that a
// durable receiver could do.
const pgbenchScript = `\set r random(1, 9000000000000000000)
INSERT INTO bench.row (event_id, body) VALUES ('evt_' || :client_id || '_' || :r, :body::text) ON CONFLICT DO NOTHING;
`

// pgbench runs the machine's pgbench, of the same installation as the server.
func (b *bench) pgbench(ctx context.Context, clients int, seconds time.Duration) (*outcome, error) {
	dir, err := os.MkdirTemp(b.dir, "pgbench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for pgbench: %w", err)
	}
	script := filepath.Join(dir, "script.sql")
	if err := os.WriteFile(script, []byte(pgbenchScript), 0o600); err != nil {
		return nil, fmt.Errorf("writing pgbench's script: %w", err)
	}
	conn, err := pgx.ParseConfig(b.server.DSN())
	if err != nil {
		return nil, fmt.Errorf("reading the server's address: %w", err)
	}
	whole := max(1, int(seconds.Round(time.Second)/time.Second))
	cmd := exec.CommandContext(ctx, b.server.Binaries().Path("pgbench"), "-n", "-M", "prepared", //nolint:gosec // a program of the installation we found
		"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(2, clients)), "-T", strconv.Itoa(whole),
		"-f", script, "-D", "body="+string(newBody(bodySize)), "-l", "--log-prefix="+filepath.Join(dir, "log"))
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "PGHOST=" + conn.Host, "PGPORT=" + strconv.Itoa(int(conn.Port)),
		"PGUSER=" + conn.User, "PGPASSWORD=" + conn.Password, "PGDATABASE=" + conn.Database,
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("running pgbench: %w: %s", err, strings.TrimSpace(string(out)))
	}
	latencies, err := readPgbench(filepath.Join(dir, "log*"))
	if err != nil {
		return nil, err
	}
	return &outcome{recorded: len(latencies), latencies: latencies, elapsed: time.Duration(whole) * time.Second}, nil
}

// readPgbench reads pgbench's logs: the third column is the latency in microseconds.
func readPgbench(pattern string) ([]time.Duration, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("reading pgbench's log: %w", err)
	}
	var latencies []time.Duration
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading pgbench's log: %w", err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) < 3 {
				continue
			}
			if us, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
				latencies = append(latencies, time.Duration(us)*time.Microsecond)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("reading pgbench's log: %w", err)
		}
	}
	slices.Sort(latencies)
	return latencies, nil
}
