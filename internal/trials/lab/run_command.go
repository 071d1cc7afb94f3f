package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// CommandResult is how a command ended.
type CommandResult struct {
	// ExitCode is its exit status; -1 if a signal ended it.
	ExitCode int

	// Stdout and Stderr are what it wrote.
	Stdout, Stderr string

	// Started and Ended are when it was started and when it had been reaped.
	Started, Ended time.Time
}

// RunCommand runs a program to its end, in the same environment as [rig.Start], without input. If limit is not zero, the
// program is killed after that time. It is also killed when ctx ends. The error means that the program could not be
// run at all.
func RunCommand(ctx context.Context, env []string, limit time.Duration, program string, args ...string) (CommandResult, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // a program that the caller built
	cmd.Env = rig.Environment(env)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	result := CommandResult{Started: time.Now()}
	err := cmd.Run()
	result.Ended, result.Stdout, result.Stderr = time.Now(), stdout.String(), stderr.String()
	var exit *exec.ExitError
	switch {
	case cmd.ProcessState != nil:
		result.ExitCode = cmd.ProcessState.ExitCode()
		return result, nil
	case err != nil && !errors.As(err, &exit) && limit > 0 && ctx.Err() != nil:
		result.ExitCode = -1 // its time was over before it had begun
		return result, nil
	}
	return result, fmt.Errorf("running %s: %w", program, err)
}
