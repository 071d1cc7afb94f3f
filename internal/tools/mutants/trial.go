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

// verdict is what became of a mutant.
type verdict string

// The verdicts.
const (
	killed    verdict = "killed"    // a test failed
	timedOut  verdict = "timed out" // the tests did not end, which somebody would notice
	alive     verdict = "survived"
	stillborn verdict = "stillborn" // it does not compile, and says nothing of the tests
)

// trial runs tests on the tree as an overlay changes it.
type trial struct {
	dir     string     // the module's
	overlay string     // "" is none
	runs    [][]string // packages of tests, with flags
}

// run ends at the first failure, or when its time is over. said is the beginning of what
// the tests said.
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

// test runs the tests of some packages; all processes that it started end with it.
func (t *trial) test(ctx context.Context, tests []string) (v verdict, said string, err error) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=0"}
	if t.overlay != "" {
		args = append(args, "-overlay="+t.overlay)
	}
	cmd := exec.CommandContext(limited, "go", append(args, tests...)...) //nolint:gosec // the go command of whoever runs this
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
		cancel() // nobody waits for the other packages
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

// judge reads one line of `go test`; "" is one that decides nothing.
func judge(line string) verdict {
	switch {
	case strings.Contains(line, "[build failed]"), strings.Contains(line, "[setup failed]"):
		return stillborn
	case strings.HasPrefix(line, "# "): // the compiler speaks of a package
		return stillborn
	case strings.HasPrefix(line, "--- FAIL"), strings.HasPrefix(line, "FAIL"), strings.HasPrefix(line, "panic:"):
		return killed
	}
	return ""
}

// overlay writes the change of a file, and the description of it that the go command reads.
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
