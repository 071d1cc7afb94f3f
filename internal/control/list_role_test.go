package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
)

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// listRole makes the role of the guide for a schema and gives its connection string.
func listRole(t *testing.T, pool *pgxpool.Pool, address, schema string, grants ...string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/production.md")
	if err != nil {
		t.Fatal(err)
	}
	block := sqlBlock.FindStringSubmatch(string(page))
	if block == nil {
		t.Fatal("the guide shows no statements for the role")
	}
	role := listRoleName(address)
	statements := strings.NewReplacer("oncegate_lists", role, "SCHEMA oncegate", "SCHEMA "+schema, "'...'", "'lists'").Replace(block[1])
	t.Cleanup(func() {
		_, _ = pool.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role)
		_, _ = pool.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role)
	})
	for statement := range strings.SplitAfterSeq(strings.TrimSpace(statements), ";") {
		if len(grants) > 0 && !slices.ContainsFunc(grants, func(g string) bool { return strings.HasPrefix(strings.TrimSpace(statement), g) }) {
			continue
		}
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "lists")
	return u.String()
}

// listRoleName names the role of a test after its database, because all databases of a server share their roles.
func listRoleName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return "lists_" + strings.TrimPrefix(u.Path, "/")
}

// The statements of the guide are enough for every list, and the role can write nothing, whatever a session is set to.
func TestListsNeedNoMoreThanTheGuideGrants(t *testing.T) {
	t.Parallel()
	address, schema, pool := filledLists(t)
	lists := inboxtest.Open(t, listRole(t, pool, address, schema), schema, session.PoolList, 2)
	if err := session.CheckListPool(t.Context(), pool, lists); err != nil {
		t.Fatal(err)
	}
	s, err := control.NewService(control.Config{Pool: pool, Lists: lists})
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if d.Method != http.MethodGet && !d.Reads {
			continue
		}
		request := searched[d.ID]
		switch {
		case d.ID == "read_outbox_payload":
			request = `{"id": 1}`
		case request == "":
			request = `{"id": "01990000-0000-7000-8000-000000000001", "ref": "01990000-0000-7000-8000-000000000001", "source": "busy", "since": "2026-01-01T00:00:00Z", "run": "42"}`
		}
		_, err := operation.Run(t.Context(), s, control.Everything("test"), func(into any) error { return json.Unmarshal([]byte(request), into) })
		if code := control.ProblemOf(err).Code; err != nil && (code == control.CodeUnavailable || code == control.CodeInternal) {
			t.Errorf("%s through the role of the guide: %v", d.ID, err)
		}
	}
	for _, write := range []string{
		"DELETE FROM inbox_event", "UPDATE effect SET state = 'pending'", "INSERT INTO audit (id, actor, action, object) VALUES (gen_random_uuid(), 'x', 'x', 'x')",
		"CREATE TABLE mine (n int)",
	} {
		_, err := lists.Exec(t.Context(), "BEGIN READ WRITE; "+write+"; COMMIT")
		if err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s through the role of the guide: %v, want that PostgreSQL denies it", write, err)
		}
	}
}

// A role that lacks a right is told which, with the statement that grants it, and what is asked through it says so too.
func TestWhatTheRoleOfListsLacksIsSaid(t *testing.T) {
	t.Parallel()
	address, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, address, schema, session.PoolAdmin, 3)
	lists := inboxtest.Open(t, listRole(t, pool, address, schema, "CREATE"), schema, session.PoolList, 2)
	role := listRoleName(address)
	lacks := func(want string, tables int) {
		t.Helper()
		err := session.CheckListPool(t.Context(), pool, lists)
		grant, ok := errors.AsType[*session.GrantError](err)
		if !ok || len(grant.Tables) != tables || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("the check says %v, want a GrantError of %d tables that ends with %q", err, tables, want)
		}
	}
	lacks("run GRANT USAGE ON SCHEMA "+schema+" TO "+role, 0)
	if _, err := pool.Exec(t.Context(), "GRANT USAGE ON SCHEMA "+schema+" TO "+role+"; GRANT SELECT ON ALL TABLES IN SCHEMA "+schema+" TO "+role+"; REVOKE SELECT ON effect FROM "+role); err != nil {
		t.Fatal(err)
	}
	lacks(": run GRANT SELECT ON ALL TABLES IN SCHEMA "+schema+" TO "+role, 1)

	s, err := control.NewService(control.Config{Pool: pool, Lists: lists})
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range control.Operations() {
		if operation.Describe().ID != "list_effects" {
			continue
		}
		_, err := operation.Run(t.Context(), s, control.Everything("test"), func(into any) error { return nil })
		if problem := control.ProblemOf(err); problem.Code != control.CodeUnavailable || !strings.Contains(problem.Detail, "table effect") || !strings.Contains(problem.Detail, "database.list_url") {
			t.Errorf("list_effects: %v: %+v", err, problem)
		}
	}
}

// Lists of another database would have people decide about what they do not see.
func TestListsOfAnotherDatabaseAreRefused(t *testing.T) {
	t.Parallel()
	address, schema := inboxtest.Schema(t)
	other, otherSchema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, address, schema, session.PoolAdmin, 2)
	if err := session.CheckListPool(t.Context(), pool, inboxtest.Open(t, other, otherSchema, session.PoolList, 2)); !errors.Is(err, session.ErrOtherDatabase) {
		t.Errorf("tables of another schema: %v", err)
	}
	if err := session.CheckListPool(t.Context(), pool, inboxtest.Open(t, inboxtest.OtherDatabase(t, address), "public", session.PoolList, 2)); !errors.Is(err, session.ErrOtherDatabase) {
		t.Errorf("another database of the server: %v", err)
	}
}
