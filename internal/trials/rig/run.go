package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// Ran is what one command came to.
type Ran struct {
	// Code is its exit status; -1 if a signal ended it.
	Code int

	// Out and Complaints are what it wrote to its output and its error stream.
	Out, Complaints string

	// From and To are when it was started and when it had been reaped.
	From, To time.Time
}

// Run runs a program to its end, in the environment that [Start] gives, without an
// input. A kill that is not zero ends it after that time with SIGKILL, unless it has
// ended by then; so does the end of ctx. It fails only if the program could not be run.
func Run(ctx context.Context, env []string, kill time.Duration, program string, args ...string) (Ran, error) {
	if kill > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, kill)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // a program that the caller built
	cmd.Env = environment(env)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	ran := Ran{From: time.Now()}
	err := cmd.Run()
	ran.To, ran.Out, ran.Complaints = time.Now(), out.String(), complaints.String()
	var exit *exec.ExitError
	switch {
	case cmd.ProcessState != nil:
		ran.Code = cmd.ProcessState.ExitCode()
		return ran, nil
	case err != nil && !errors.As(err, &exit) && kill > 0 && ctx.Err() != nil:
		ran.Code = -1 // its time was over before it had begun
		return ran, nil
	}
	return ran, fmt.Errorf("running %s: %w", program, err)
}
