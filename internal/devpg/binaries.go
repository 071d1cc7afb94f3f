package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MinMajor is the oldest PostgreSQL release that Oncegate runs on.
const MinMajor = 15

// ErrNoBinaries is returned by [Find] when the machine has no PostgreSQL server of release [MinMajor] or newer.
var ErrNoBinaries = errors.New("no PostgreSQL server found")

// Binaries is one installed PostgreSQL server.
type Binaries struct {
	Dir   string // absolute path of the directory that contains both initdb and postgres
	Major int    // major release, for example 17
}

// Path returns the path of one program of the installation, for example "pgbench". The program need not exist.
func (b Binaries) Path(program string) string { return filepath.Join(b.Dir, program) }

// Env returns the complete environment for the installation's programs. It contains no variable
// that starts with PG, because it could make them use another cluster. It sets a locale because a
// postmaster on macOS refuses to start without one. If the installation has its own libraries, such
// as one unpacked from packages into another directory, Env sets the path to them.
func (b Binaries) Env() []string {
	env := []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C", "TZ=UTC"}
	if root, unpacked := strings.CutSuffix(filepath.Dir(filepath.Dir(b.Dir)), "/usr/lib/postgresql"); unpacked && root != "" {
		return append(env, libraryPath(root)...)
	}
	if found, _ := filepath.Glob(filepath.Join(b.Dir, "../lib/libpq.so*")); len(found) > 0 { // only a malformed pattern is an error
		return append(env, "LD_LIBRARY_PATH="+filepath.Dir(found[0]))
	}
	return env
}

// libraryPath returns the variable with the directories of the libraries that were unpacked from packages below root. Debian's
// packages have them in both: libpq, for example, in the first, and the readline of psql in the second.
func libraryPath(root string) []string {
	var libraries []string
	for _, pattern := range []string{"usr/lib/*-linux-*", "lib/*-linux-*"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // only a malformed pattern is an error
		libraries = append(libraries, found...)
	}
	if len(libraries) == 0 {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}
}

// Find returns the PostgreSQL server to use: the first usable one among the extra directories, the
// directory of the postgres on PATH, Debian's directories and Homebrew's, with the newest release
// first within each. A directory is usable if it contains both initdb and postgres, both report the
// same release, and the release is at least [MinMajor]. Find does not look for initdb on PATH
// because that may be the initdb of another release. The error wraps [ErrNoBinaries].
func Find(ctx context.Context, extra ...string) (Binaries, error) {
	account, err := serverAccount()
	if err != nil {
		return Binaries{}, err
	}
	var problems []error
	for _, dir := range candidates(extra) {
		b, err := probe(ctx, dir, account)
		if err == nil {
			return b, nil
		}
		problems = append(problems, err)
	}
	return Binaries{}, errors.Join(append([]error{fmt.Errorf("%w: release %d or newer is needed", ErrNoBinaries, MinMajor)}, problems...)...)
}

// candidates returns the directories that contain a postgres program, in order of preference.
func candidates(extra []string) []string {
	var dirs []string
	for _, dir := range extra {
		if isProgram(filepath.Join(dir, "postgres")) {
			dirs = append(dirs, dir)
		}
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(resolved))
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin/postgres",
		"/opt/homebrew/opt/postgresql@*/bin/postgres",
		"/usr/local/opt/postgresql@*/bin/postgres",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin/postgres",
		"/usr/pgsql-*/bin/postgres",
	} {
		found, _ := filepath.Glob(pattern) // only a malformed pattern is an error, and these are not
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(numberIn(b), numberIn(a)) })
		for _, path := range found {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		again := seen[dir]
		seen[dir] = true
		return again
	})
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var digits = regexp.MustCompile(`[0-9]+`)

// numberIn returns the first number in a path, which in the patterns of candidates is the release.
func numberIn(path string) int {
	n, _ := strconv.Atoi(digits.FindString(path))
	return n
}

// probe asks both programs for their release, as the account that will run them, because a program
// that the account cannot execute is unusable.
func probe(ctx context.Context, dir string, account *account) (Binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Binaries{}, fmt.Errorf("resolving %s: %w", dir, err)
	}
	var majors [2]int
	for i, program := range []string{"postgres", "initdb"} {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, program), "--version") //nolint:gosec // a fixed program of an installation
		cmd.Dir = "/"
		cmd.Env = Binaries{Dir: dir}.Env()
		cmd.SysProcAttr = account.attributes()
		out, err := cmd.Output()
		if err != nil {
			return Binaries{}, fmt.Errorf("asking %s/%s for its version: %w", dir, program, err)
		}
		majors[i] = versionIn(string(out))
	}
	switch {
	case majors[0] != majors[1]:
		return Binaries{}, fmt.Errorf("%s holds postgres %d but initdb %d", dir, majors[0], majors[1])
	case majors[0] < MinMajor:
		return Binaries{}, fmt.Errorf("%s holds PostgreSQL %d", dir, majors[0])
	}
	return Binaries{Dir: dir, Major: majors[0]}, nil
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) ([0-9]+)`)

// versionIn returns the major release in a line such as "postgres (PostgreSQL) 17.2", or 0.
func versionIn(line string) int {
	m := versionLine.FindStringSubmatch(line)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
