package lab

import (
	"bytes"
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
	// tailBytes limits how much of each log is quoted, and tailLogs how many logs are quoted.
	tailBytes = 4 << 10
	tailLogs  = 8
)

// ExplainFailure explains why a campaign could not be run to its end, so that a failure on another machine can be
// understood. It adds to the cause how to repeat the campaign, and the ends of the newest logs. patterns select the
// logs. They are copied whole into a directory that the error names, because a campaign removes its own. The cause is
// repeated at the end, because tools that show only a part of a long output show its end. A nil cause stays nil.
func ExplainFailure(cause error, repeat string, patterns ...string) error {
	if cause == nil {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "it ended early; to repeat it: %s\n", repeat)
	logs, err := findLogs(patterns)
	if err != nil || len(logs) == 0 {
		fmt.Fprintf(&text, "no process has written a log (%v)\n", err)
		return fmt.Errorf("%w\n%sthe cause: %s", cause, text.String(), cause.Error())
	}
	kept, err := copyLogs(logs)
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
	return fmt.Errorf("%w\n%sthe cause: %s", cause, text.String(), cause.Error())
}

// findLogs returns the logs that patterns name, the newest first.
func findLogs(patterns []string) ([]string, error) {
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

// KeepLogs copies the logs that patterns name into a directory that stays, and returns it.
func KeepLogs(patterns ...string) (dir string, err error) {
	logs, err := findLogs(patterns)
	if err != nil {
		return "", fmt.Errorf("looking for the logs: %w", err)
	}
	return copyLogs(logs)
}

// copyLogs copies the logs into a directory that stays.
func copyLogs(logs []string) (string, error) {
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

// tail returns the last whole lines of a file, and its size.
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
