package devpg_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/devpg"
)

// Programs that packages left in a directory of their own find the libraries beside them; those of the machine are
// led nowhere.
func TestEnvLeadsUnpackedProgramsToTheirLibraries(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	libraries := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	if err := os.MkdirAll(libraries, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		filepath.Join(root, "usr/lib/postgresql/15/bin"): true,
		"/usr/lib/postgresql/15/bin":                     false,
		"/opt/homebrew/opt/postgresql@17/bin":            false,
	} {
		env := devpg.Binaries{Dir: dir}.Env()
		if got := slices.Contains(env, "LD_LIBRARY_PATH="+libraries); got != want {
			t.Errorf("%s: %v, want the libraries named: %t", dir, env, want)
		}
		if slices.ContainsFunc(env, func(v string) bool { return len(v) > 1 && v[:2] == "PG" }) {
			t.Errorf("%s: %v leads to another cluster", dir, env)
		}
	}
}
