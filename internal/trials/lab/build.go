package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root is the checkout that the working directory is in: the directory of its
// go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("finding the checkout: no go.mod above the working directory")
		}
		dir = parent
	}
}

// Build builds the program of a package of the checkout, such as "./cmd/oncegate", into out, with
// build tags. It never builds with the race detector, so that trials measure and kill the same
// program that is released.
func Build(ctx context.Context, pkg, out string, tags ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	args := []string{"build", "-o", out}
	if len(tags) > 0 {
		args = append(args, "-tags", strings.Join(tags, ","))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...) //nolint:gosec // packages of this checkout
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", pkg, err, strings.TrimSpace(string(output)))
	}
	return nil
}
