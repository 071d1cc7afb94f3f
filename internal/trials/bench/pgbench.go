package main

import (
	"bytes"
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

// pgbench inserts one row of 2 KB in one transaction: the least that a durable receiver can do.
const pgbenchScript = `\set r random(1, 9000000000000000000)
INSERT INTO bench.row (event_id, body) VALUES ('evt_' || :client_id || '_' || :r, :body::text) ON CONFLICT DO NOTHING;
`

// pgbench runs the pgbench of the server's own installation. Its own count begins before it has connected, which takes
// seconds with many clients. So the transactions are counted from its log, from the call of begin to the call of end.
//
// With a rate, in transactions a second, pgbench runs an open loop, and the latency counts from the scheduled time. 0 is a closed
// loop.
func (b *receiveBench) pgbench(ctx context.Context, clients int, rate float64, measured time.Duration, begin, end func()) (*outcome, error) {
	dir, err := os.MkdirTemp(b.Dir, "pgbench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for pgbench: %w", err)
	}
	script := filepath.Join(dir, "script.sql")
	if err := os.WriteFile(script, []byte(pgbenchScript), 0o600); err != nil {
		return nil, fmt.Errorf("writing pgbench's script: %w", err)
	}
	conn, err := pgx.ParseConfig(b.DSN())
	if err != nil {
		return nil, fmt.Errorf("reading the server's address: %w", err)
	}
	connecting := time.Second + time.Duration(clients/64)*time.Second
	seconds := int((connecting+measured)/time.Second) + 1
	cmd := exec.CommandContext(ctx, b.Server.Binaries().Path("pgbench"), "-n", "-M", "prepared", //nolint:gosec // a program of the installation we found
		"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(2, clients)), "-T", strconv.Itoa(seconds),
		"-f", script, "-D", "body="+string(newBody(bodySize)), "-l", "--log-prefix="+filepath.Join(dir, "log"))
	if rate > 0 {
		cmd.Args = append(cmd.Args, "-R", strconv.FormatFloat(rate, 'f', 0, 64))
	}
	cmd.Dir = dir
	cmd.Env = append(b.Server.Binaries().Env(),
		"PGHOST="+conn.Host, "PGPORT="+strconv.Itoa(int(conn.Port)), "PGUSER="+conn.User, "PGPASSWORD="+conn.Password, "PGDATABASE="+conn.Database)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("running pgbench: %w", err)
	}
	from := time.Now().Add(connecting)
	to := from.Add(measured)
	waitUntil(from)
	begin()
	waitUntil(to)
	end()
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("running pgbench: %w: %s", err, strings.TrimSpace(said.String()))
	}
	latencies, err := readPgbench(filepath.Join(dir, "log*"), from, to)
	if err != nil {
		return nil, err
	}
	return &outcome{recorded: len(latencies), latencies: latencies, elapsed: measured}, nil
}

// readPgbench reads from pgbench's logs the latencies of the transactions that ended between two instants. The third
// column is the latency in microseconds; the fifth and sixth are the end in seconds and microseconds.
func readPgbench(pattern string, from, to time.Time) ([]time.Duration, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("reading pgbench's log: %w", err)
	}
	var latencies []time.Duration
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading pgbench's log: %w", err)
		}
		for line := range strings.Lines(string(content)) {
			var client, number, latency, file, sec, usec int64
			if _, err := fmt.Sscan(line, &client, &number, &latency, &file, &sec, &usec); err != nil {
				return nil, fmt.Errorf("reading pgbench's log: %w", err)
			}
			if at := time.Unix(sec, usec*1000); !at.Before(from) && at.Before(to) {
				latencies = append(latencies, time.Duration(latency)*time.Microsecond)
			}
		}
	}
	slices.Sort(latencies)
	return latencies, nil
}
