// Package npmtest installs the npm packages that tests use. A lock file pins them. The product never serves them, and
// no user needs them.
package npmtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// timeout bounds the installation of the packages of one lock file.
const timeout = 5 * time.Minute

// files returns the files from which [Modules] installs.
func files() []string { return []string{"package.json", "package-lock.json", ".npmrc"} }

// Modules installs the packages that the lock file of a folder pins, once for the checkout, and returns their folder
// node_modules. Without Node or npm, or if the packages cannot be installed, it skips the test, with a message that
// names what was not tested. If REQUIRE_NPM is set, it fails instead.
func Modules(t *testing.T, folder, what string) string {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("REQUIRE_NPM") != "" {
		missing = t.Fatalf
	}
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			missing("NOT TESTED: %s. There is no %s: install Node 18 or newer with npm", what, name)
		}
	}
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	parent, err := place()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	installed := filepath.Join(parent, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(installed); err == nil {
		return filepath.Join(installed, "node_modules")
	}
	if err := os.MkdirAll(parent, 0o750); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(parent, "new-") //nolint:usetesting // it is renamed within its file system, and kept
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(fresh) }() // a leftover is harmless
	for _, name := range files() {
		Copy(t, filepath.Join(folder, name), filepath.Join(fresh, name))
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--no-progress")
	install.Dir = fresh
	if text, err := install.CombinedOutput(); err != nil {
		missing("NOT TESTED: %s. Its packages could not be installed: npm ci: %v\n%s", what, err, text)
	}
	if err := os.Rename(fresh, installed); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Stat(installed); there != nil { // another test was first
			t.Fatal(err)
		}
	}
	return filepath.Join(installed, "node_modules")
}

// place returns the folder of the packages: .oncegate/npm of the checkout, which is the nearest folder above with a
// go.mod.
func place() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return filepath.Join(at, ".oncegate", "npm"), nil
		}
		parent := filepath.Dir(at)
		if parent == at {
			return "", errors.New("the test runs in no checkout: no folder above has a go.mod")
		}
		at = parent
	}
}

// Copy copies a file.
func Copy(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
