package devpg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// data returns the data directory. The release is part of its name, so that a newer PostgreSQL
// starts with an empty cluster instead of failing on files that it cannot read.
func (s *Server) data() string {
	return filepath.Join(s.cfg.Dir, "data-"+strconv.Itoa(s.cfg.Binaries.Major))
}

func (s *Server) clusterName() string { return "oncegate-" + fingerprint(s.cfg.Dir) }

// lay creates the directories, the password and the data directory unless they exist.
func (s *Server) lay(ctx context.Context) error {
	if err := makeDir(s.cfg.Dir, 0o711, s.account); err != nil {
		return err
	}
	if !s.account.reaches(s.cfg.Dir) {
		return fmt.Errorf("account %s, which must run PostgreSQL in root's place, cannot enter %s: choose another directory", s.account.name, s.cfg.Dir)
	}
	sockets := socketDir(s.cfg.Dir)
	if err := makeDir(sockets, 0o700, s.account); err != nil {
		return err
	}
	if err := s.account.own(sockets); err != nil {
		return fmt.Errorf("making %s: %w", sockets, err)
	}
	if err := s.readPassword(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); err == nil {
		return nil
	}
	return s.initialise(ctx)
}

// readPassword reads the cluster's password, or creates one. Trust authentication would give every
// other user of the machine access, because they can all connect to 127.0.0.1.
func (s *Server) readPassword() error {
	path := filepath.Join(s.cfg.Dir, "password")
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(content) == 0 {
		var random [16]byte
		rand.Read(random[:])
		content = []byte(hex.EncodeToString(random[:]))
		if err = os.WriteFile(path, content, 0o600); err == nil {
			err = s.account.own(path)
		}
	}
	if err != nil {
		return fmt.Errorf("keeping the password of PostgreSQL: %w", err)
	}
	s.password = string(content)
	return nil
}

// initialise runs initdb in a temporary directory and renames it, so that a data directory is
// either complete or absent.
func (s *Server) initialise(ctx context.Context) error {
	fresh := s.data() + ".new"
	for _, dir := range []string{fresh, s.data()} { // remains of an interrupted run; without PG_VERSION they contain no cluster
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("clearing %s: %w", dir, err)
		}
	}
	if err := makeDir(fresh, 0o700, s.account); err != nil {
		return err
	}
	if err := s.account.own(fresh); err != nil {
		return fmt.Errorf("making %s: %w", fresh, err)
	}
	args := []string{
		"-D", fresh, "-U", superuser, "-E", "UTF8", "--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256",
		"--pwfile=" + filepath.Join(s.cfg.Dir, "password"), "--no-instructions",
	}
	if s.cfg.Volatile {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, s.cfg.Binaries.Path("initdb"), args...) //nolint:gosec // a program of the installation we found
	cmd.Dir = "/"
	cmd.Env = s.cfg.Binaries.Env()
	cmd.SysProcAttr = s.account.attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making a cluster with %s: %w: %s", cmd.Path, err, lastLines(string(out), 5))
	}
	if err := os.Rename(fresh, s.data()); err != nil {
		return fmt.Errorf("making a cluster: %w", err)
	}
	return nil
}

// settings returns the server's settings as arguments of postgres, sorted by name.
func (s *Server) settings() []string {
	all := map[string]string{
		"cluster_name":            s.clusterName(),
		"listen_addresses":        "127.0.0.1",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		"port":                    strconv.Itoa(s.port),
		"unix_socket_directories": socketDir(s.cfg.Dir),
	}
	if s.cfg.Volatile {
		maps.Copy(all, map[string]string{"fsync": "off", "full_page_writes": "off", "wal_level": "replica"})
	}
	maps.Copy(all, s.cfg.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}
