package devpg

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Place returns the directory for a long-lived cluster of a checkout. That is dir itself, unless
// this process is root and the account that runs the server cannot enter dir, for example because
// the checkout is under /root. Then it is a directory in /var/tmp named after dir, so that the same
// checkout finds its cluster again.
func Place(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", dir, err)
	}
	account, err := serverAccount()
	if err != nil {
		return "", err
	}
	if account.reaches(dir) {
		return dir, nil
	}
	return filepath.Join("/var/tmp", "oncegate-"+fingerprint(dir)), nil
}

// fingerprint returns a short name for a path.
func fingerprint(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:5])
}

// makeDir creates a directory, or uses an existing one if it belongs to us. In a directory that
// everyone may write to, another user could have created it first, to read the password or to plant
// a data directory.
func makeDir(path string, mode fs.FileMode, a *account) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // no secrets here, and the account must enter it
		return fmt.Errorf("making %s: %w", filepath.Dir(path), err)
	}
	err := os.Mkdir(path, mode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making %s: %w", path, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	mine := ok && (int(owner.Uid) == os.Geteuid() || a != nil && int(owner.Uid) == a.uid)
	if !info.IsDir() || !mine {
		return fmt.Errorf("%s exists and is not ours: remove it, or choose another directory", path)
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	return nil
}

// socketDir returns the directory of the unix socket: a subdirectory of dir, or a directory in /tmp
// if that path is too long for a socket address (104 bytes on macOS, 108 on Linux, including
// ".s.PGSQL.32767.lock").
func socketDir(dir string) string {
	const longest = 104 - len("/.s.PGSQL.32767") - 1
	beside := filepath.Join(dir, "s")
	if len(beside) <= longest {
		return beside
	}
	return filepath.Join("/tmp", "oncegate-"+fingerprint(dir))
}
