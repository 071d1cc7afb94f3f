package migrations_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// A migration that has run somewhere never changes, because two databases of the same version would
// otherwise have different tables.
func TestFilesStayAsTheyLanded(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("digests.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = true
		content, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%v: a migration that has run somewhere stays; bring it back", err)
		} else if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != digest {
			t.Errorf("%s was changed: take the change back and add a migration that makes it", name)
		}
	}
	names, err := filepath.Glob("sql/*.sql")
	if err != nil || len(names) < 2*migrations.Version {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		if !listed[name] {
			t.Errorf("%s is not in digests.txt: run `go generate ./migrations`", name)
		}
	}
}

// Every migration states which programs may run on it, because otherwise no older program could. A
// program that is too old for a version is too old for all later ones.
func TestFilesSayWhichProgramsMayRun(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("sql/*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	before := 0
	for i, name := range names {
		version := i + 1
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		oldest, _, err := migrations.Oldest(string(content))
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case oldest == 0:
			t.Errorf("%s: begin it with \"-- oncegate:oldest %d\", or with a newer version if programs of %d cannot run on it (CONTRIBUTING.md says when)", name, before, before)
		case oldest > version || oldest < before:
			t.Errorf("%s: oldest is %d, want %d (as in the migration before) to %d (its own)", name, oldest, before, version)
		}
		before = max(before, oldest)
	}
}

func TestDirectives(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content string
		oldest  int
		outside bool
		wrong   string
	}{
		"none":              {content: "-- A comment.\nSELECT 1;"},
		"oldest":            {content: "-- oncegate:oldest 20\n-- Why.\nSELECT 1;", oldest: 20},
		"below a statement": {content: "SELECT 1;\n-- oncegate:oldest 20\n"},
		"no version":        {content: "-- oncegate:oldest twenty\n", wrong: `"twenty" is no version`},
		"unknown":           {content: "-- oncegate:newest 20\n", wrong: "directive oncegate:newest is unknown; known are oldest and no-transaction"},
		"outside": {
			content: "-- oncegate:oldest 20\n-- oncegate:no-transaction\n-- Why; and why not.\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS a_b ON a (b) -- here\n  WHERE c;\nDROP INDEX CONCURRENTLY IF EXISTS a_c;\n",
			oldest:  20, outside: true,
		},
		"outside, not to be begun again": {content: "-- oncegate:no-transaction\nCREATE INDEX CONCURRENTLY a_b ON a (b);", wrong: "may only CREATE INDEX CONCURRENTLY IF NOT EXISTS"},
		"outside, something else":        {content: "-- oncegate:no-transaction\nUPDATE a SET b = 1;", wrong: "put the rest into a migration of its own"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			oldest, outside, err := migrations.Oldest(test.content)
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Fatalf("gave %v, want %q", err, test.wrong)
			}
			if err == nil && (oldest != test.oldest || outside != test.outside) {
				t.Errorf("gave oldest %d, outside %t", oldest, outside)
			}
		})
	}
}

// leftBehind lists what the down files of released migrations fail to remove. This is harmless,
// because the up files accept it.
var leftBehind = map[int]string{7: "index CREATE INDEX replay_item_event_idx ON replay_item USING btree (event_id)"}

// Every down file reverts its up file, and the up file runs again on the result.
func TestEveryMigrationGoesDownAndUpAgain(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.EmptySchema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	before := ""
	for version := 1; version <= migrations.Version; version++ {
		m, err := migrations.New(migrations.Config{URL: url, Schema: schema}.To(version))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Up(t.Context()); err != nil {
			t.Fatalf("up to %d: %v", version, err)
		}
		made := dumped(t, pool)
		if version > 1 {
			if err := m.DownTo(t.Context(), version-1); err != nil {
				t.Fatalf("down from %d: %v", version, err)
			}
			if left := dumped(t, pool); diff(left, before) != leftBehind[version] || diff(before, left) != "" {
				t.Errorf("down from %d to %d leaves\n%s\n--- want ---\n%s", version, version-1, diff(left, before), diff(before, left))
			}
			if err := m.Up(t.Context()); err != nil {
				t.Fatalf("up to %d again: %v", version, err)
			}
			if again := dumped(t, pool); again != made {
				t.Errorf("up to %d again makes\n%s\n--- want ---\n%s", version, diff(again, made), diff(made, again))
			}
		}
		before = made
	}
}

// diff returns the lines of a that are not in b.
func diff(a, b string) string {
	known := map[string]bool{}
	for line := range strings.Lines(b) {
		known[strings.TrimSpace(line)] = true
	}
	var out []string
	for line := range strings.Lines(a) {
		if line = strings.TrimSpace(line); !known[line] {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
