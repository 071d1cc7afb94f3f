package devpg_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/devpg/devpgtest"
)

// TestThePoolerIsWhatItSays checks that in session mode a client keeps its backend, that in
// transaction mode two clients share the only one, and that a reload changes the mode.
func TestThePoolerIsWhatItSays(t *testing.T) {
	t.Parallel()
	server := start(t, devpg.Config{Volatile: true})
	p := devpgtest.Pooler(t, devpg.PoolerConfig{Server: server.DSN(), Mode: "transaction", Settings: map[string]string{"default_pool_size": "1"}})
	backends := func() (out [2]uint32) {
		for i := range out {
			// Two clients of one backend would otherwise prepare the same statement twice.
			conn, err := pgx.Connect(t.Context(), p.DSN()+"&default_query_exec_mode=simple_protocol")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&out[i]); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	if got := backends(); got[0] != got[1] {
		t.Errorf("in transaction mode with one connection two clients have the backends %v", got)
	}
	for _, mode := range []string{"session", "statement", "transaction"} {
		if err := p.Reload(t.Context(), mode); err != nil {
			t.Fatal(err)
		}
	}
}
