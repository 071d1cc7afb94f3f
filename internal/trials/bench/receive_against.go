package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/internal/trials/lab"
)

// againstRate is the number of deliveries a second of the open loop in which two revisions are compared: a quiet hour, in
// which the latency of a single delivery counts.
const againstRate = 1000

// startAgainst builds the binary of another revision and starts its receiver on the same database, which both must fit.
func (b *receiveBench) startAgainst(ctx context.Context) error {
	progress("building the binary of %s", b.against)
	binary, err := b.buildRevision(ctx, b.against)
	if err != nil {
		return err
	}
	host := b.Host
	host.Binary = binary
	cfg := b.node(b.config, "receive", append([]string{"ONCEGATE_GATE_CONNECTIONS=" + strconv.Itoa(poolSize)}, b.env...)...)
	cfg.Name = "against"
	if b.other, err = host.Serve(ctx, cfg); err != nil {
		return fmt.Errorf("the process of %s: %w", b.against, err)
	}
	b.processes = append(b.processes, b.other.Process)
	return nil
}

// buildRevision builds the binary of a revision in a separate working tree, and removes the tree.
func (b *receiveBench) buildRevision(ctx context.Context, revision string) (binary string, err error) {
	root, err := lab.Root()
	if err != nil {
		return "", err
	}
	tree := filepath.Join(b.Dir, "against")
	run := func(dir, name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // git and go
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(string(out)))
		}
		return nil
	}
	if err := run(root, "git", "worktree", "add", "--detach", tree, revision); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, run(root, "git", "worktree", "remove", "--force", tree)) }()
	binary = filepath.Join(b.Dir, "oncegate-against")
	return binary, run(tree, "go", "build", "-o", binary, "./cmd/oncegate")
}

// planAgainst returns what a round measures with another revision: each measurement of both, in an order that changes
// from round to round.
func planAgainst(round int) []cell {
	pair := []subject{subjectAgainst, subjectGate}
	if round%2 == 0 {
		pair[0], pair[1] = pair[1], pair[0]
	}
	var cells []cell
	for _, like := range []cell{
		{Connections: 1, Kind: onlyNew}, {Connections: 64, Kind: onlyNew}, {Connections: 256, Kind: onlyNew}, {Connections: 64, Kind: halfDuplicates},
		{Connections: 256, Kind: halfDuplicates}, {Connections: openConnections, Kind: onlyNew, Rate: againstRate},
	} {
		for _, s := range pair {
			like.Subject, like.Round = s, round
			cells = append(cells, like)
		}
	}
	return cells
}

// compareAgainst adds the ratios of this revision to the other one.
func (r *receiveReport) compareAgainst() {
	for _, k := range []kind{onlyNew, halfDuplicates, onlyNew + openLoop} {
		for _, n := range []int{1, 64, 256} {
			ours, theirs := r.cellsLike(subjectGate, n, k), r.cellsLike(subjectAgainst, n, k)
			for _, of := range []struct {
				what  string
				value func(*cell) float64
			}{
				{"acked/s", rate}, {"p50", func(c *cell) float64 { return c.P50 }}, {"p99", func(c *cell) float64 { return c.P99 }},
				{"receiver's processor time", func(c *cell) float64 { return c.ReceiverCPU }},
				{"PostgreSQL's processor time", func(c *cell) float64 { return c.PostgresCPU }},
			} {
				r.compare(fmt.Sprintf("c/e %s, %d connections, %s", of.what, n, k), ours, theirs, of.value, 0, 0)
			}
		}
	}
}
