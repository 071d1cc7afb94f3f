// Command digests writes the digests of new migrations into digests.txt. `go generate` runs it in
// the directory of package migrations. It never changes the digest of a listed file, because a
// migration that has run in an installation must not change.
package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const list = "digests.txt"

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "digests:", err)
		os.Exit(1) //nolint:forbidigo // this is a separate program
	}
}

func write() error {
	known, err := os.ReadFile(list)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", list, err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(known)) {
		digest, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			return fmt.Errorf("%s: %q is no digest and name", list, strings.TrimSpace(line))
		}
		listed[name] = digest
	}
	names, err := filepath.Glob("sql/*.sql")
	if err != nil {
		return fmt.Errorf("listing the migrations: %w", err)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		name = filepath.ToSlash(name)
		digest := fmt.Sprintf("%x", sha256.Sum256(content))
		if before, ok := listed[name]; ok && before != digest {
			return fmt.Errorf("%s was changed: take the change back and add a migration that makes it", name)
		}
		delete(listed, name)
		fmt.Fprintf(&out, "%s  %s\n", digest, name)
	}
	for name := range listed {
		return fmt.Errorf("%s is gone: bring it back; a migration that has run somewhere stays", name)
	}
	if err := os.WriteFile(list, []byte(out.String()), 0o644); err != nil { //nolint:gosec // it is in the repository
		return fmt.Errorf("writing %s: %w", list, err)
	}
	return nil
}
