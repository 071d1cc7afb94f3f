package main

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// syncTimes is how long the idle disk takes to sync 8 KiB, in milliseconds. The figures of a run depend on it, and it
// distinguishes a quiet disk from one that stalls.
type syncTimes struct {
	Median  float64 `json:"median_ms"`
	P99     float64 `json:"p99_ms"`
	Longest float64 `json:"longest_ms"`
}

// measureSyncs makes a file in dir, and writes and syncs it for the given time, as PostgreSQL does with its log.
func measureSyncs(dir string, while time.Duration) (syncTimes, error) {
	file, err := os.CreateTemp(dir, "oncegate-sync-")
	if err != nil {
		return syncTimes{}, fmt.Errorf("making a file to sync: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	const page, pages = 8 << 10, 2 << 10 // the size of a segment of PostgreSQL's log: 16 MiB
	content := make([]byte, page)
	for i := range pages {
		if _, err := file.WriteAt(content, int64(i*page)); err != nil {
			return syncTimes{}, fmt.Errorf("writing a file to sync: %w", err)
		}
	}
	if err := file.Sync(); err != nil {
		return syncTimes{}, fmt.Errorf("syncing a file: %w", err)
	}
	var took []time.Duration
	for began := time.Now(); time.Since(began) < while; {
		at := time.Now()
		if _, err := file.WriteAt(content, int64(len(took)%pages*page)); err != nil {
			return syncTimes{}, fmt.Errorf("writing a file to sync: %w", err)
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			return syncTimes{}, fmt.Errorf("syncing a file: %w", err)
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	all := outcome{latencies: took}
	return syncTimes{Median: all.quantile(.5), P99: all.quantile(.99), Longest: all.quantile(1)}, nil
}
