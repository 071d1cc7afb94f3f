package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// standbyWorld is a directory, a primary and the environment in which the command of the standby runs.
type standbyWorld struct {
	directory string
	primary   *devpg.Server
	command   []string
	environ   []string
}

// newStandbyWorld starts a primary that authenticates as the file says, with the role that the file makes.
func newStandbyWorld(t *testing.T) *standbyWorld {
	t.Helper()
	content, file := composeFile(t)
	var configs struct {
		Configs map[string]struct{ Content string }
	}
	if err := yaml.Unmarshal(content, &configs); err != nil {
		t.Fatal(err)
	}
	w := &standbyWorld{}
	var err error
	if w.directory, err = os.MkdirTemp("/var/tmp", "oncegate-compose-"); err != nil { //nolint:usetesting // the account of PostgreSQL reaches this one
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(w.directory) })
	if err := os.Chmod(w.directory, 0o777); err != nil { // as the volume of the image
		t.Fatal(err)
	}
	hba, password := filepath.Join(w.directory, "pg_hba.conf"), filepath.Join(w.directory, "password")
	for path, content := range map[string]string{hba: configs.Configs["pg_hba"].Content, password: "compose\n"} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil { // as Compose mounts it
			t.Fatal(err)
		}
	}
	w.primary, err = devpg.Start(t.Context(), devpg.Config{Volatile: true, Settings: map[string]string{"hba_file": hba}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.primary.Stop(context.WithoutCancel(t.Context())) })
	if _, err := connect(t, w.primary.DSN()).Exec(t.Context(), "CREATE ROLE oncegate SUPERUSER LOGIN PASSWORD 'compose'"); err != nil {
		t.Fatal(err)
	}
	port := dsnPort(t, w.primary.DSN())
	w.environ = append(w.primary.Binaries().Env(), "PGDATA="+filepath.Join(w.directory, "standby"), "PASSWORD_FILE="+password)
	w.environ[0] += ":" + w.primary.Binaries().Dir
	standby := file.Services["standby"]
	for _, word := range slices.Concat(standby.Entrypoint, standby.Command) {
		w.command = append(w.command, strings.NewReplacer("$$", "$", "host=postgres", "host=127.0.0.1 port="+port, "/etc/pg_hba.conf", hba).Replace(word))
	}
	return w
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func dsnPort(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// start runs the command of the standby on a free port, as the account that runs PostgreSQL. It returns the connection string of the
// standby, and a function that ends it.
func (w *standbyWorld) start(t *testing.T) (dsn string, stop func()) {
	t.Helper()
	address, err := rig.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	args := append(slices.Clone(w.command[1:]), "-c", "port="+port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=100")
	var log bytes.Buffer
	c := exec.Command(w.command[0], args...)
	c.Env, c.Dir, c.Stdout, c.Stderr, c.SysProcAttr = w.environ, "/", &log, &log, serverAccount(t)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	stop = func() {
		if c.Process.Signal(syscall.SIGINT) == nil { // PostgreSQL's fast shutdown
			if err := <-ended; err != nil {
				t.Errorf("the standby ended: %v", err)
			}
		}
		if t.Failed() {
			t.Log(log.String())
		}
	}
	return "postgres://oncegate:compose@" + address + "/oncegate?sslmode=disable", stop
}

// serverAccount lets a command run as an account that PostgreSQL accepts.
func serverAccount(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.ParseUint(account.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(account.Gid, 10, 32)
	if err := cmp.Or(err1, err2); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// streams waits until the standby shows what the primary has.
func (w *standbyWorld) streams(t *testing.T, standby string, rows int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var recovering bool
		var n int
		conn, err := pgx.Connect(t.Context(), standby)
		if err == nil {
			err = conn.QueryRow(t.Context(), "SELECT pg_is_in_recovery(), (SELECT count(*) FROM seen)").Scan(&recovering, &n)
			_ = conn.Close(t.Context())
		}
		if err == nil && recovering && n == rows {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the standby has %d rows, want %d; recovering %t, %v", n, rows, recovering, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// TestComposeStandby checks that the command of the standby makes one that streams from the primary, and starts it again as it was.
func TestComposeStandby(t *testing.T) {
	t.Parallel()
	_, file := composeFile(t)
	primary, standby := file.Services["postgres"], file.Services["standby"]
	if !slices.Equal(standby.Profiles, []string{"beyond"}) || primary.Profiles != nil {
		t.Errorf("profiles %v and %v", primary.Profiles, standby.Profiles)
	}
	if standby.Image != primary.Image || !slices.Equal(standby.Command, primary.Command) || standby.User != "postgres" {
		t.Errorf("the standby is not a server as the primary: %+v, %+v", standby, primary)
	}
	w := newStandbyWorld(t)
	db := connect(t, w.primary.DSN())
	exec := func(statement string) {
		if _, err := db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE seen AS SELECT 1 AS n")
	dsn, stop := w.start(t)
	defer func() { stop() }()
	w.streams(t, dsn, 1)
	stop()
	exec("INSERT INTO seen VALUES (2)")
	dsn, stop = w.start(t)
	w.streams(t, dsn, 2)
	var slot, name string
	if err := db.QueryRow(t.Context(), "SELECT s.slot_name::text, r.application_name FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid").Scan(&slot, &name); err != nil || slot != "standby" || name != "standby" {
		t.Errorf("slot %q, name %q, %v", slot, name, err)
	}
	exec("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
	exec("SELECT pg_reload_conf()")
	exec("INSERT INTO seen VALUES (3)")
	w.streams(t, dsn, 3)
	if err := connect(t, dsn).QueryRow(t.Context(), "SELECT pg_promote()::text").Scan(&slot); err != nil || slot != "true" {
		t.Errorf("promoting: %s, %v", slot, err)
	}
	for _, version := range []string{"PG_VERSION", "standby.signal"} {
		if _, err := os.Stat(filepath.Join(w.directory, "standby", version)); (err == nil) != (version == "PG_VERSION") {
			t.Errorf("%s: %v", version, err)
		}
	}
}
