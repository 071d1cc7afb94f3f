package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoPooler is returned by [FindPooler] and [StartPooler] when the machine has no PgBouncer.
var ErrNoPooler = errors.New("no PgBouncer found: install the package pgbouncer")

// FindPooler returns the PgBouncer to use: the one on PATH, Debian's or Homebrew's.
func FindPooler() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return filepath.Abs(path)
	}
	for _, path := range []string{"/usr/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer", "/usr/local/bin/pgbouncer"} {
		if isProgram(path) {
			return path, nil
		}
	}
	return "", ErrNoPooler
}

// poolerEnv returns the environment for PgBouncer. If PgBouncer was unpacked from packages into
// another directory, the environment contains the path to the libraries that were unpacked with it.
func poolerEnv(program string) []string {
	env := []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	if root, unpacked := strings.CutSuffix(program, "/usr/sbin/pgbouncer"); unpacked && root != "" {
		env = append(env, libraryPath(root)...)
	}
	return env
}

// PoolerConfig describes a private PgBouncer. Server is required.
type PoolerConfig struct {
	// Server is the address of the database to which PgBouncer connects, with a user and a
	// password.
	Server string

	// Mode is "session", "transaction" or "statement". It defaults to "session".
	Mode string

	// Settings are added to the configuration of PgBouncer, by name, for example
	// "default_pool_size": "1". They take precedence over the settings of this package.
	Settings map[string]string
}

// Pooler is a PgBouncer that is a child of this process, on 127.0.0.1 and a free port.
type Pooler struct {
	cfg     PoolerConfig
	server  *url.URL
	account *account
	program string
	dir     string
	port    int
	cmd     *exec.Cmd
	done    chan struct{} // closed when cmd has been reaped
}

// StartPooler starts a PgBouncer and returns when it accepts connections.
func StartPooler(ctx context.Context, cfg PoolerConfig) (*Pooler, error) {
	cfg.Mode = cmp.Or(cfg.Mode, "session")
	p := &Pooler{cfg: cfg}
	var err error
	if p.program, err = FindPooler(); err != nil {
		return nil, err
	}
	if p.server, err = url.Parse(cfg.Server); err != nil || p.server.User == nil {
		return nil, errors.New("starting PgBouncer: the server's address is no URL with a user")
	}
	if p.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("/var/tmp", "oncegate-pooler-"); err != nil {
		return nil, fmt.Errorf("making a directory for PgBouncer: %w", err)
	}
	if err := p.account.own(p.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("making a directory for PgBouncer: %w", err), p.Stop())
	}
	for try := 0; ; try++ {
		if err = p.start(ctx); err == nil || try == 5 || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// DSN returns the address of the database through the pooler.
func (p *Pooler) DSN() string { return p.address(strings.TrimPrefix(p.server.Path, "/")) }

func (p *Pooler) address(database string) string {
	u := *p.server
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port))
	u.Path = "/" + database
	return u.String()
}

// LogPath returns the path of PgBouncer's log.
func (p *Pooler) LogPath() string { return filepath.Join(p.dir, "log") }

// Reload changes the pool mode while clients are connected, and returns when the new mode is in
// effect.
func (p *Pooler) Reload(ctx context.Context, mode string) error {
	p.cfg.Mode = mode
	if err := p.write(); err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("reloading PgBouncer: %w", err)
	}
	for {
		if p.mode(ctx) == mode {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("reloading PgBouncer: %w", err)
		}
	}
}

// Stop kills PgBouncer, which loses nothing, and removes its directory. Calling it twice is not an
// error.
func (p *Pooler) Stop() error {
	if p.cmd != nil {
		if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping PgBouncer: %w", err)
		}
		<-p.done
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("removing the directory of PgBouncer: %w", err)
	}
	return nil
}

// write writes PgBouncer's configuration and its file of users.
func (p *Pooler) write() error {
	settings := map[string]string{
		"listen_addr": "127.0.0.1", "listen_port": strconv.Itoa(p.port), "unix_socket_dir": "",
		"auth_type": "scram-sha-256", "auth_file": filepath.Join(p.dir, "users"), "admin_users": p.server.User.Username(),
		"pool_mode": p.cfg.Mode, "server_reset_query": "DISCARD ALL", "max_client_conn": "500", "default_pool_size": "100",
	}
	maps.Copy(settings, p.cfg.Settings)
	var text strings.Builder
	fmt.Fprintf(&text, "[databases]\n* = host=%s port=%s\n[pgbouncer]\n", p.server.Hostname(), p.server.Port())
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = %s\n", name, settings[name])
	}
	password, _ := p.server.User.Password()
	users := fmt.Sprintf("%q %q\n", p.server.User.Username(), password)
	for path, content := range map[string]string{p.path(): text.String(), filepath.Join(p.dir, "users"): users} {
		err := os.WriteFile(path, []byte(content), 0o600)
		if err == nil {
			err = p.account.own(path)
		}
		if err != nil {
			return fmt.Errorf("configuring PgBouncer: %w", err)
		}
	}
	return nil
}

func (p *Pooler) path() string { return filepath.Join(p.dir, "pgbouncer.ini") }

// start starts PgBouncer on a free port and waits until it accepts connections or ends.
func (p *Pooler) start(ctx context.Context) error {
	var err error
	if p.port, err = freePort(); err != nil {
		return err
	}
	if err := p.write(); err != nil {
		return err
	}
	log, err := openLog(p.LogPath())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.program, p.path()) //nolint:gosec,noctx // a program of the system; it must outlive ctx, which bounds only its start
	cmd.Dir = "/"
	cmd.Env = poolerEnv(p.program)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = p.account.attributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting PgBouncer: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // its log contains the reason
	}()
	p.cmd, p.done = cmd, done
	for {
		if p.mode(ctx) == p.cfg.Mode {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("starting PgBouncer: it ended at once: %s", lastLines(logSince(p.LogPath(), 0), 5))
		case <-ctx.Done():
			return fmt.Errorf("starting PgBouncer: %w", ctx.Err())
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// mode returns the pool mode in effect, according to PgBouncer's console, or "" if the console does
// not answer.
func (p *Pooler) mode(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cfg, err := pgx.ParseConfig(p.address("pgbouncer"))
	if err != nil {
		return ""
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return ""
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "SHOW CONFIG")
	if err != nil {
		return ""
	}
	defer rows.Close()
	for rows.Next() {
		if values := rows.RawValues(); len(values) > 1 && string(values[0]) == "pool_mode" {
			return string(values[1])
		}
	}
	return ""
}
