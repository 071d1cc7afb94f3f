package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc: Linux shows 100 a second on every architecture that Go runs on.
const clockTick = time.Second / 100

// CPU is the processor time that a process and its reaped children have used.
func CPU(pid int) (time.Duration, error) {
	s, err := readProcessTimes(pid)
	if err != nil {
		return 0, err
	}
	return s.own + s.reaped, nil
}

// FamilyCPU is the processor time of a process and of all its children, including those it has reaped: PostgreSQL's,
// given the postmaster.
func FamilyCPU(pid int) (time.Duration, error) {
	parent, err := readProcessTimes(pid)
	if err != nil {
		return 0, err
	}
	total := parent.own + parent.reaped
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}
	for _, path := range paths {
		child, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if s, err := readProcessTimes(child); err == nil && s.parent == pid { // one that has just ended is in reaped next time
			total += s.own + s.reaped
		}
	}
	return total, nil
}

type processTimes struct {
	parent      int
	own, reaped time.Duration
}

func readProcessTimes(pid int) (processTimes, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return processTimes{}, fmt.Errorf("reading the times of process %d: %w", pid, err)
	}
	// The second field is a name in parentheses, which may hold anything.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	if len(fields) < 15 {
		return processTimes{}, fmt.Errorf("reading the times of process %d: %d fields", pid, len(fields))
	}
	var n [15]int64
	for i := 1; i < len(n); i++ {
		n[i], _ = strconv.ParseInt(fields[i], 10, 64) // field 0 is the state; the rest are numbers
	}
	return processTimes{parent: int(n[1]), own: time.Duration(n[11]+n[12]) * clockTick, reaped: time.Duration(n[13]+n[14]) * clockTick}, nil
}

// PeakRSS is the largest resident memory that a process has had, in bytes.
func PeakRSS(pid int) (int64, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("reading the memory of process %d: no VmHWM", pid)
}
