package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// postmaster is the content of a data directory's pid file.
type postmaster struct {
	pid  int
	port int
}

// readPostmaster reads postmaster.pid. The second result is false if the file is missing or
// incomplete.
func readPostmaster(data string) (postmaster, bool) {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return postmaster{}, false
	}
	lines := strings.Split(string(content), "\n")
	if len(lines) < 4 || filepath.Clean(lines[1]) != filepath.Clean(data) {
		return postmaster{}, false
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(lines[0]))
	port, err2 := strconv.Atoi(strings.TrimSpace(lines[3]))
	if errors.Join(err1, err2) != nil {
		return postmaster{}, false
	}
	return postmaster{pid: pid, port: port}, true
}

// runningOn returns the live postmaster of a data directory. A pid file survives kill -9, and
// another process may have its number by now. runningOn therefore checks that the process is alive,
// is not a zombie, and has this data directory in its command line.
func runningOn(ctx context.Context, data string) (postmaster, bool) {
	pm, ok := readPostmaster(data)
	if !ok || !alive(pm.pid) {
		return postmaster{}, false
	}
	command, ok := commandOf(ctx, pm.pid)
	if !ok || !strings.Contains(command, data) {
		return postmaster{}, false
	}
	return pm, true
}

// alive reports whether a process with this number exists, regardless of its owner.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// commandOf returns the command line of a process, or false if the process has ended or is a
// zombie. It reads /proc if that exists, because a minimal machine may lack ps, and uses ps
// elsewhere.
func commandOf(ctx context.Context, pid int) (string, bool) {
	if _, err := os.Stat("/proc/self/cmdline"); err == nil {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(content) == 0 {
			return "", false
		}
		return strings.ReplaceAll(string(content), "\x00", " "), true
	}
	out, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "stat=,command=", "-p", strconv.Itoa(pid)).Output() //nolint:gosec // a number
	if err != nil {
		return "", false
	}
	state, command, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	return command, !strings.HasPrefix(state, "Z")
}

// removeStale removes a pid file whose number now belongs to another program. PostgreSQL itself
// handles a stale file if no process has its number, and then also checks that no orphaned backend
// is still attached to the shared memory. removeStale therefore removes the file only if it would
// make PostgreSQL refuse to start.
func removeStale(ctx context.Context, data, sockets, clusterName string) error {
	var paths []string
	if pm, ok := readPostmaster(data); ok && alive(pm.pid) {
		if _, running := runningOn(ctx, data); !running && !backendsLeft(ctx, clusterName) {
			paths = append(paths, filepath.Join(data, "postmaster.pid"))
		}
	}
	// The socket directory is private to this cluster, which is not running, so every lock in it is
	// stale.
	locks, _ := filepath.Glob(filepath.Join(sockets, ".s.PGSQL.*")) // only a malformed pattern is an error
	for _, path := range append(paths, locks...) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing stale %s: %w", path, err)
		}
	}
	return nil
}

// backendsLeft reports whether a server process of the named cluster is alive. The title of each
// process contains the cluster's name.
func backendsLeft(ctx context.Context, clusterName string) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil || len(entries) == 0 {
		out, err := exec.CommandContext(ctx, "ps", "-axww", "-o", "command=").Output()
		return err != nil || strings.Contains(string(out), "postgres: "+clusterName)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if command, ok := commandOf(ctx, pid); ok && strings.HasPrefix(command, "postgres: "+clusterName) {
			return true
		}
	}
	return false
}
