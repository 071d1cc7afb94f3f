package devpg_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/devpg"
)

// Programs that were unpacked into another directory find the libraries next to them. The machine's
// own programs get no library path.
func TestEnvLeadsUnpackedProgramsToTheirLibraries(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	unpacked, fetched := filepath.Join(root, "usr/lib/x86_64-linux-gnu"), filepath.Join(root, "fetched/lib")
	readline := filepath.Join(root, "lib/x86_64-linux-gnu") // psql does not start without it
	for _, dir := range []string{unpacked, readline, fetched} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "libpq.so.5"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		filepath.Join(root, "usr/lib/postgresql/15/bin"): "LD_LIBRARY_PATH=" + unpacked + ":" + readline,
		filepath.Join(root, "fetched/bin"):               "LD_LIBRARY_PATH=" + fetched,
		"/usr/lib/postgresql/15/bin":                     "",
		filepath.Join(root, "elsewhere/bin"):             "",
	} {
		env := devpg.Binaries{Dir: dir}.Env()
		got := ""
		if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "LD_") }); i >= 0 {
			got = env[i]
		}
		if got != want {
			t.Errorf("%s: %v, want %q", dir, env, want)
		}
		if slices.ContainsFunc(env, func(v string) bool { return len(v) > 1 && v[:2] == "PG" }) {
			t.Errorf("%s: %v leads to another cluster", dir, env)
		}
	}
}
