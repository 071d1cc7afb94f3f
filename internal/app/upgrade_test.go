package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/migrations"
)

// later builds the program as it will be some migrations later: with these files behind
// those there are.
func later(t *testing.T, ups ...string) string {
	t.Helper()
	root, err := lab.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	put := func(name, content string) {
		path := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, name)] = path
	}
	version, err := os.ReadFile(filepath.Join(root, "migrations", "version.go"))
	if err != nil {
		t.Fatal(err)
	}
	now := fmt.Sprintf("\tVersion = %d\n", migrations.Version)
	if !strings.Contains(string(version), now) {
		t.Fatalf("version.go has no line %q", now)
	}
	put("migrations/version.go", strings.Replace(string(version), now, fmt.Sprintf("\tVersion = %d\n", migrations.Version+len(ups)), 1))
	for i, up := range ups {
		put(fmt.Sprintf("migrations/sql/%06d_later.up.sql", migrations.Version+1+i), up)
		put(fmt.Sprintf("migrations/sql/%06d_later.down.sql", migrations.Version+1+i), "SELECT 1")
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "oncegate")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", out, "./cmd/oncegate")
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building a later program: %v: %s", err, output)
	}
	return out
}

// A fleet is upgraded under its work: programs of today go on, ready, on a schema of the
// next version, while that is made and after. A later version that they may not run on
// takes them out with a line, and whatever they had not done, the later program does.
func TestUpgradeUnderWork(t *testing.T) {
	t.Parallel()
	says := func(oldest int) string { return fmt.Sprintf("-- oncegate:oldest %d\n", oldest) }
	expand := says(migrations.Version) + "ALTER TABLE effect ADD COLUMN later int; ALTER TABLE inbox_event ADD COLUMN later int; CREATE INDEX effect_later_idx ON effect (later)"
	floor := says(migrations.Version+2) + "CREATE TABLE later ()"
	dir := t.TempDir()
	today := filepath.Join(dir, "oncegate")
	if err := lab.Build(t.Context(), "./cmd/oncegate", today); err != nil {
		t.Fatal(err)
	}
	next, last := later(t, expand), later(t, expand, floor)

	var sent atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, "admin", 2)
	environ := []string{"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_SOURCE_PROVIDER=stripe", "ONCEGATE_SOURCE_SECRET=whsec_test",
		"ONCEGATE_FORWARD_URL=" + target.URL, "ONCEGATE_FORWARD_IDEMPOTENT=true"}
	serve := func(program string) (public, admin string) {
		public, err := rig.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if admin, err = rig.FreeAddress(); err != nil {
			t.Fatal(err)
		}
		p, err := rig.Start(filepath.Join(dir, "log"), append([]string{"ONCEGATE_PUBLIC=" + public, "ONCEGATE_ADMIN=" + admin}, environ...), program, "serve")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Stop(time.Minute); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Ready(ctx, "http://"+admin+"/readyz"); err != nil {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("%v\n%s", err, log)
		}
		return public, admin
	}
	migrate := func(program string) {
		cmd := exec.CommandContext(t.Context(), program, "migrate", "up")
		cmd.Env = environ
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("migrate up: %v: %s", err, output)
		}
	}
	events := 0
	deliver := func(public string) int {
		events++
		body := fmt.Appendf(nil, `{"id":"evt_%d","object":"event","created":%d,"type":"invoice.paid"}`, events, time.Now().Unix())
		status, err := rig.Deliver(t.Context(), client(), "http://"+public+"/in/stripe", "whsec_test", body)
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	done := func(want int) {
		inboxtest.Until(t, fmt.Sprintf("%d effects are done", want), func() bool {
			var n int
			err := pool.QueryRow(t.Context(), `SELECT count(*) FROM effect WHERE state = 'done'`).Scan(&n)
			return err == nil && n == want
		})
	}

	public, admin := serve(today)
	for range 10 {
		if status := deliver(public); status != http.StatusOK {
			t.Fatalf("before: status %d", status)
		}
	}
	// While the next version is made, and after.
	made := make(chan struct{})
	go func() { defer close(made); migrate(next) }()
	for migrating := true; migrating; {
		select {
		case <-made:
			migrating = false
		default:
		}
		if status := deliver(public); status != http.StatusOK {
			t.Errorf("delivery %d meanwhile: status %d", events, status)
		}
		if status, checks := readiness(t, admin); status != http.StatusOK {
			t.Errorf("meanwhile: %d %v", status, checks)
		}
	}
	for range 10 {
		if status := deliver(public); status != http.StatusOK {
			t.Errorf("after: status %d", status)
		}
	}
	done(events)
	serve(today) // a process of today may also start, as after a crash

	migrate(last)
	inboxtest.Until(t, "today's program is taken out", func() bool {
		status, checks := readiness(t, admin)
		return status == http.StatusServiceUnavailable && strings.Contains(checks["schema"], fmt.Sprintf("needs a program of version %d, this binary knows %d: run a newer oncegate", migrations.Version+2, migrations.Version))
	})
	inboxtest.Until(t, "today's program takes no delivery", func() bool { return deliver(public) == http.StatusServiceUnavailable })
	if _, err := pool.Exec(t.Context(), `UPDATE effect SET state = 'retry', finished_at = NULL, next_at = now() WHERE id = (SELECT min(id::text)::uuid FROM effect)`); err != nil {
		t.Fatal(err)
	}
	public, _ = serve(last)
	if status := deliver(public); status != http.StatusOK {
		t.Errorf("the later program: status %d", status)
	}
	inboxtest.UntilWithin(t, 2*time.Minute, "the later program does what is left", func() bool {
		var left int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM effect WHERE state <> 'done'`).Scan(&left)
		return err == nil && left == 0
	})
	var failed int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM effect_attempt WHERE outcome <> 'done'`).Scan(&failed); err != nil || failed != 0 {
		t.Errorf("%d attempts failed, %v", failed, err)
	}
}
