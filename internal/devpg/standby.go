package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// StartStandby makes a hot standby of the server, which streams from it under the given name, and returns when it
// answers. The name is what synchronous_standby_names goes by. It has the server's settings, and a directory of its own
// that [Server.Stop] removes.
func (s *Server) StartStandby(ctx context.Context, name string) (*Server, error) {
	cfg := s.cfg
	standby := &Server{cfg: cfg, account: s.account, throwAway: true}
	var err error
	if standby.cfg.Dir, err = os.MkdirTemp(cmp.Or(cfg.Under, "/var/tmp"), "oncegate-standby-"); err != nil {
		return nil, fmt.Errorf("making a directory for the standby: %w", err)
	}
	if err := standby.copyFrom(ctx, s, name); err != nil {
		return nil, errors.Join(err, standby.discard())
	}
	if err := standby.lay(ctx); err != nil {
		return nil, errors.Join(err, standby.discard())
	}
	if err := standby.start(ctx); err != nil {
		return nil, errors.Join(err, standby.discard())
	}
	return standby, nil
}

// copyFrom takes a base backup of the primary, and its password.
func (s *Server) copyFrom(ctx context.Context, primary *Server, name string) error {
	if err := makeDir(s.cfg.Dir, 0o711, s.account); err != nil {
		return err
	}
	if err := makeDir(s.data(), 0o700, s.account); err != nil {
		return err
	}
	password := filepath.Join(s.cfg.Dir, "password")
	if err := os.WriteFile(password, []byte(primary.password), 0o600); err != nil {
		return fmt.Errorf("keeping the password of the standby: %w", err)
	}
	if err := errors.Join(s.account.own(s.data()), s.account.own(password)); err != nil {
		return fmt.Errorf("making %s: %w", s.data(), err)
	}
	from := "host=127.0.0.1 port=" + strconv.Itoa(primary.port) + " user=" + superuser + " password=" + primary.password + " application_name=" + name
	cmd := exec.CommandContext(ctx, s.cfg.Binaries.Path("pg_basebackup"), "-d", from, "-D", s.data(), "-R", "-X", "stream", "-c", "fast") //nolint:gosec // a program of the installation we found
	cmd.Dir = "/"
	cmd.Env = s.cfg.Binaries.Env()
	cmd.SysProcAttr = s.account.attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copying the primary: %w: %s", err, lastLines(string(out), 3))
	}
	return nil
}
