package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// tailBytes bounds what is quoted of each log, and tailLogs how many logs are quoted.
	tailBytes = 4 << 10
	tailLogs  = 8
)

// Early explains why a campaign ended before its end, so that a failure on another machine can be
// understood: it adds how to repeat the campaign and the ends of its processes' logs to the cause.
// The logs are kept whole in a directory that it names, since those of a campaign go with it.
// patterns name the logs; the newest are quoted. nil stays nil.
func Early(cause error, repeat string, patterns ...string) error {
	if cause == nil {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "it ended early; to repeat it: %s\n", repeat)
	logs, err := found(patterns)
	if err != nil || len(logs) == 0 {
		fmt.Fprintf(&text, "no process has written a log (%v)", err)
		return fmt.Errorf("%w\n%s", cause, text.String())
	}
	kept, err := keep(logs)
	if err != nil {
		fmt.Fprintf(&text, "the logs could not be kept: %v\n", err)
	} else {
		fmt.Fprintf(&text, "the whole logs: %s\n", kept)
	}
	for _, log := range logs[:min(len(logs), tailLogs)] {
		end, size, err := tail(log)
		if err != nil {
			fmt.Fprintf(&text, "--- %s: %v\n", filepath.Base(log), err)
			continue
		}
		fmt.Fprintf(&text, "--- %s, the last %d of %d bytes\n%s\n", filepath.Base(log), len(end), size, end)
	}
	return fmt.Errorf("%w\n%s", cause, strings.TrimSuffix(text.String(), "\n"))
}

// found gives the logs, newest first.
func found(patterns []string) ([]string, error) {
	written := map[string]time.Time{}
	var errs []error
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		errs = append(errs, err)
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
				written[path] = info.ModTime()
			}
		}
	}
	logs := make([]string, 0, len(written))
	for path := range written {
		logs = append(logs, path)
	}
	slices.SortFunc(logs, func(a, b string) int {
		if c := written[b].Compare(written[a]); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return logs, errors.Join(errs...)
}

// Keep copies the logs that patterns name into a directory that stays, and gives it.
func Keep(patterns ...string) (dir string, err error) {
	logs, err := found(patterns)
	if err != nil {
		return "", fmt.Errorf("looking for the logs: %w", err)
	}
	return keep(logs)
}

// keep copies the logs into a directory that stays.
func keep(logs []string) (string, error) {
	// A test's own directory is removed with the test, TMPDIR is not.
	dir, err := os.MkdirTemp("", "oncegate-campaign-")
	if err != nil {
		return "", fmt.Errorf("making a directory for the logs: %w", err)
	}
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(log)), content, 0o600)
		}
		if err != nil {
			return dir, fmt.Errorf("keeping %s: %w", log, err)
		}
	}
	return dir, nil
}

// tail gives the last whole lines of a file.
func tail(path string) (end []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		return nil, 0, err
	}
	if _, err = f.Seek(max(size-tailBytes, 0), io.SeekStart); err != nil {
		return nil, 0, err
	}
	if end, err = io.ReadAll(io.LimitReader(f, tailBytes)); err != nil {
		return nil, 0, err
	}
	if _, rest, cut := bytes.Cut(end, []byte("\n")); cut && size > tailBytes {
		end = rest // from the first whole line
	}
	return bytes.TrimRight(end, "\n"), size, nil
}

// Timed is a test that may have a deadline: [testing.T].
type Timed interface {
	Context() context.Context
	Cleanup(end func())
	Deadline() (deadline time.Time, ok bool)
}

// InTime gives a context that ends a minute before the test's own deadline: a campaign that hangs then
// fails where it hangs and can say so, where the deadline ends the program without a word of its logs.
func InTime(t Timed) context.Context {
	deadline, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadlineCause(t.Context(), deadline.Add(-time.Minute), errors.New("the time of the test is over (-timeout)"))
	t.Cleanup(cancel)
	return ctx
}
