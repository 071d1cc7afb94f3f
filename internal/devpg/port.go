package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Ports come from a range below 32768, where Linux's ephemeral ports begin. See the package
// comment.
const (
	firstPort = 21000
	lastPort  = 31999
)

// choosePort chooses the cluster's previous port if it is free, so that the address stays the same,
// and otherwise a random free port.
func (s *Server) choosePort() error {
	path := filepath.Join(s.cfg.Dir, "port")
	if s.port == 0 {
		content, err := os.ReadFile(path)
		if err == nil {
			s.port, _ = strconv.Atoi(strings.TrimSpace(string(content))) // a value that is not a port does not pass the check below
		}
	}
	for range 200 {
		if s.port >= firstPort && s.port <= lastPort && portFree(s.port) {
			if err := os.WriteFile(path, []byte(strconv.Itoa(s.port)), 0o644); err != nil { //nolint:gosec // no secret
				return fmt.Errorf("keeping the port of PostgreSQL: %w", err)
			}
			return nil
		}
		s.port = anyPort()
	}
	return errors.New("choosing a port for PostgreSQL: none of 200 tried was free")
}

// anyPort returns a random port of the range, which may be in use.
func anyPort() int {
	return firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // a port is no secret
}

// freePort returns a random port of the range that is free now.
func freePort() (int, error) {
	for range 200 {
		if port := anyPort(); portFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("choosing a port: none of 200 tried was free")
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // closes the port again at once
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// openLog opens the log for appending. It empties the log first if it is longer than 10 MB.
func openLog(path string) (*os.File, error) {
	const tooLong = 10 << 20
	if info, err := os.Stat(path); err == nil && info.Size() > tooLong {
		if err := os.Truncate(path, 0); err != nil {
			return nil, fmt.Errorf("emptying the log of PostgreSQL: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of PostgreSQL: %w", err)
	}
	return f, nil
}

// logSince returns the text after the given offset of the log.
func logSince(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err.Error()
	}
	content, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(content)
}

// lastLines returns the last n lines of a text, joined into one.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
