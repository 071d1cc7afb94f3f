package session_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
)

// TestOnlyNamesTravelInTheStartupMessage: poolers refuse or drop everything else, unless they are
// told by their configuration what it is.
func TestOnlyNamesTravelInTheStartupMessage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		query string
		want  map[string]string
	}{
		{"", nil},
		{"&application_name=ours&search_path=public&statement_timeout=3s", map[string]string{"application_name": "ours"}},
		{"&options=-c%20synchronous_commit%3Doff%20--lock-timeout%3D3s%20-cgeqo%3Doff", nil},
		// By such a word some hosts find the database: it is no setting, and stays.
		{"&options=project%3Dblue%20-c%20geqo%3Doff", map[string]string{"options": "project=blue"}},
		{"&options=project%3Dblue%20tenant%3Da", map[string]string{"options": "project=blue tenant=a"}},
		// A -c with nothing behind it is the server's to refuse.
		{"&options=-c%20geqo%3Doff%20-c", map[string]string{"options": "-c"}},
	} {
		got := startup(t, "postgres://user:secret@127.0.0.1:1/db?sslmode=disable"+test.query)
		want := map[string]string{"user": "user", "database": "db"}
		maps.Copy(want, test.want)
		if !maps.Equal(got, want) {
			t.Errorf("with %q the startup message has %v, want %v", test.query, got, want)
		}
	}
}

// startup is what a prepared connection says to a server that hangs up then.
func startup(t *testing.T, url string) map[string]string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan map[string]string, 1)
	go func() {
		defer close(said)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		message, err := pgproto3.NewBackend(conn, conn).ReceiveStartupMessage()
		if m, ok := message.(*pgproto3.StartupMessage); ok && err == nil {
			said <- m.Parameters
		}
	}()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	}
	session.Prepare(cfg, session.Settings{"synchronous_commit": "on", "search_path": "ours"}, new(session.History))
	if conn, err := pgx.ConnectConfig(t.Context(), cfg); err == nil {
		_ = conn.Close(t.Context())
		t.Error("connected to a server that hangs up")
	}
	_ = listener.Close()
	return <-said
}

// TestOurSettingsWin, whatever the connection string says; what it says beside them holds.
func TestOurSettingsWin(t *testing.T) {
	t.Parallel()
	cfg, err := pgx.ParseConfig(inboxtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["options"] = `-c synchronous_commit=off --search-path=public -c geqo=off -c application_name=a\ b`
	cfg.RuntimeParams["lock_timeout"] = "7s"
	session.Prepare(cfg, session.Settings{
		"synchronous_commit": "on", "search_path": "ours", "lock_timeout": "1000", "random_page_cost": "1.1", "tcp_user_timeout": "9000",
	}, new(session.History))
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	want := map[string]string{
		"synchronous_commit": "on", "search_path": "ours", "lock_timeout": "1s", "random_page_cost": "1.1", "geqo": "off", "application_name": "a b",
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		var got string
		if err := conn.QueryRow(t.Context(), "SHOW "+name).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want[name] {
			t.Errorf("%s is %q, want %q", name, got, want[name])
		}
	}
	if session.Pooled(conn) {
		t.Error("a connection that leads straight to the server is taken for a pooler's")
	}
}

// TestASettingThatCannotBeIsNamed: in one line, and no connection comes of it.
func TestASettingThatCannotBeIsNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings session.Settings
		want     string
	}{
		{session.Settings{"lock_timeout": "soon"}, `the database refuses the setting lock_timeout = "soon": invalid value for parameter "lock_timeout": "soon"`},
		{session.Settings{"max_connections": "7"}, `the database refuses the setting max_connections = "7": parameter "max_connections" cannot be changed without restarting the server`},
		// Set and not what was asked for: the server rounds, as a pooler would drop it.
		{session.Settings{"work_mem": "100 kB"}, `a session of the database has work_mem = "100" and must have "100 kB", although it was set: ` +
			`a pooler or proxy in between does not keep it; use the pooler's session mode, or connect to PostgreSQL directly`},
	} {
		cfg, err := pgx.ParseConfig(inboxtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		session.Prepare(cfg, test.settings, new(session.History))
		_, err = pgx.ConnectConfig(t.Context(), cfg)
		wrong, ok := errors.AsType[*session.SettingError](err)
		if !ok || wrong.Error() != test.want {
			t.Errorf("%v: got %v, want %s", test.settings, err, test.want)
		}
	}
}

// TestASettingThatNotEveryServerHasIsTolerated: it is set where it exists, and never compared.
func TestASettingThatNotEveryServerHasIsTolerated(t *testing.T) {
	t.Parallel()
	cfg, err := pgx.ParseConfig(inboxtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	session.Prepare(cfg, session.Settings{"client_connection_check_interval": "5000", "tcp_keepalives_idle": "10"}, new(session.History))
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var got string
	if err := conn.QueryRow(t.Context(), "SHOW client_connection_check_interval").Scan(&got); err != nil || got != "5s" {
		t.Errorf("the interval is %q (%v), want 5s", got, err)
	}
}

// TestNoSessionCompiles: whatever the pool is for, and whatever the connection string and the database say.
func TestNoSessionCompiles(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	asking := url + "&jit=on"
	for _, role := range []session.PoolRole{session.PoolGate, session.PoolWork, session.PoolQueue, session.PoolAdmin, session.PoolList} {
		var jit string
		if err := inboxtest.Open(t, asking, schema, role, 1).QueryRow(t.Context(), "SHOW jit").Scan(&jit); err != nil || jit != "off" {
			t.Errorf("the %s pool has jit %s (%v)", role, jit, err)
		}
	}
	// Migrations and whatever else prepares its connections.
	cfg, err := pgx.ParseConfig(asking)
	if err != nil {
		t.Fatal(err)
	}
	session.Prepare(cfg, session.Settings{"search_path": schema}, new(session.History))
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var jit string
	if err := conn.QueryRow(t.Context(), "SHOW jit").Scan(&jit); err != nil || jit != "off" {
		t.Errorf("a prepared connection has jit %s (%v)", jit, err)
	}
}
