package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// verdict is the result of testing a mutant.
type verdict string

// The verdicts.
const (
	killed    verdict = "killed"    // a test failed
	timedOut  verdict = "timed out" // the tests did not end, which a developer would notice
	alive     verdict = "survived"
	stillborn verdict = "stillborn" // it does not compile, so it says nothing about the tests
)

// trial runs tests on the tree with an overlay.
type trial struct {
	dir     string     // the module's directory
	overlay string     // path of the overlay; "" means none
	runs    [][]string // test packages, with flags
}

// run runs the tests until the first failure or until limit has passed. said is the beginning of
// the tests' output.
func (t *trial) run(ctx context.Context, limit time.Duration) (v verdict, said string, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, tests := range t.runs {
		if v, said, err = t.test(limited, tests); v != alive || err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return "", said, ctx.Err()
	}
	return v, said, err
}

// test runs the tests of some packages and kills all processes that they started when it returns.
func (t *trial) test(ctx context.Context, tests []string) (v verdict, said string, err error) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=0"}
	if t.overlay != "" {
		args = append(args, "-overlay="+t.overlay)
	}
	cmd := exec.CommandContext(limited, "go", append(args, tests...)...) //nolint:gosec // the go command of the user
	cmd.Dir = t.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", "", fmt.Errorf("running tests: %w", err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return "", "", fmt.Errorf("running tests: %w", err)
	}
	var text strings.Builder
	for lines := bufio.NewScanner(output); v == "" && lines.Scan(); {
		line := lines.Text()
		if text.Len() < 4<<10 {
			text.WriteString(line + "\n")
		}
		v = judge(line)
	}
	if v != "" {
		cancel() // do not wait for the other packages
	}
	err = cmd.Wait()
	switch {
	case v != "":
		return v, text.String(), nil
	case ctx.Err() != nil:
		return timedOut, text.String(), nil
	case err == nil:
		return alive, text.String(), nil
	}
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return killed, text.String(), nil
	}
	return "", text.String(), fmt.Errorf("running tests: %w", err)
}

// judge derives a verdict from one line of `go test`. It returns "" if the line is not conclusive.
func judge(line string) verdict {
	switch {
	case strings.Contains(line, "[build failed]"), strings.Contains(line, "[setup failed]"):
		return stillborn
	case strings.HasPrefix(line, "# "): // a heading of the compiler's errors
		return stillborn
	case strings.HasPrefix(line, "--- FAIL"), strings.HasPrefix(line, "FAIL"), strings.HasPrefix(line, "panic:"):
		return killed
	}
	return ""
}

// overlay writes the changed file and the overlay description that the go command reads.
func overlay(dir string, m *mutation) (path string, err error) {
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, m.apply(), 0o600); err != nil {
		return "", fmt.Errorf("writing a mutant: %w", err)
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {m.File: changed}})
	if err != nil {
		return "", fmt.Errorf("writing a mutant: %w", err)
	}
	path = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("writing a mutant: %w", err)
	}
	return path, nil
}
