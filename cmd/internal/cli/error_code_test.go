package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/control"
	pooler "github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// `oncegate explain` knows every code that the command line can print.
func TestEveryCodeIsExplained(t *testing.T) {
	t.Parallel()
	var codes []string
	for _, m := range errorcode.All() {
		codes = append(codes, string(m.Code))
	}
	own := len(codes)
	for _, m := range control.Codes() {
		codes = append(codes, string(m.Code))
	}
	if own < 30 || len(codes) < own+20 {
		t.Fatalf("only %d codes", len(codes))
	}
	for _, code := range codes {
		var out, stderr bytes.Buffer
		exit := cli.Main([]string{"explain", code}, nil, strings.NewReader(""), &out, &stderr)
		if exit != 0 || !strings.Contains(out.String(), "/docs/reference/errors#errors-of-the-") {
			t.Errorf("explain %s: exit %d, %s%s", code, exit, &out, &stderr)
		}
	}
}

// The two sets share no code, so that a code means one thing.
func TestCodesDifferFromThoseOfOperations(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range control.Codes() {
		seen[string(m.Code)] = true
	}
	for _, m := range errorcode.All() {
		if seen[string(m.Code)] {
			t.Errorf("%s is declared twice", m.Code)
		}
		seen[string(m.Code)] = true
		if !regexp.MustCompile(`^[a-z_]+$`).MatchString(string(m.Code)) || m.Title == "" || !strings.HasSuffix(m.Next, ".") {
			t.Errorf("%+v is incomplete", m)
		}
	}
}

// Errors of other packages get their code. The codes of PostgreSQL are from appendix A of its documentation.
func TestErrorsOfOtherPackagesHaveCodes(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"tables_missing":         fmt.Errorf("listing: %w", &pgconn.PgError{Code: "42P01"}),
		"database_forbidden":     fmt.Errorf("listing: %w", &pgconn.PgError{Code: "42501"}),
		"database_read_only":     &pgconn.PgError{Code: "25006"},
		"lock_timeout":           &pgconn.PgError{Code: "55P03"},
		"database_unreachable":   &pgconn.PgError{Code: "57P03"},
		"schema_version":         fmt.Errorf("%w: it is at 1", migrations.ErrSchema),
		"shared_sessions":        pooler.ErrShared,
		"not_found":              &control.Problem{Code: control.CodeNotFound, Detail: "event x: not found"},
		"route_gone":             fmt.Errorf("moving: %w", &control.Problem{Code: control.CodeRouteGone}),
		"failed":                 errors.New("of no kind"),
		"of_a_newer_server":      &control.Problem{Code: "of_a_newer_server"},
		`\x1b[31m`:               &control.Problem{Code: "\x1b[31m"}, // of a server that is none of ours
		"invalid_request":        &control.Problem{Code: control.CodeInvalid},
		"sealing_key_missing":    &control.Problem{Code: control.CodeKeyMissing},
		"idempotency_key_reused": &control.Problem{Code: control.CodeKeyReused},
	} {
		if got := cli.Report(err); !strings.HasSuffix(got, " ["+want+"]\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("%v: %q, want the code %s at the end", err, got, want)
		}
	}
}

// With --output json, and its aliases, stderr has an object for each error, also when the command line is wrong.
func TestErrorsInJSON(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"events", "lst", "-o", "json"}, {"--json", "events", "lst"}, {"events", "lst", "--output", "jsonl"},
	} {
		var out, stderr bytes.Buffer
		exit := cli.Main(args, nil, strings.NewReader(""), &out, &stderr)
		var got struct{ Error, Code string }
		decoder := json.NewDecoder(&stderr)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil || exit != 2 {
			t.Errorf("%v: exit %d, %v", args, exit, err)
		}
		if got.Code != "unknown_command" || !strings.HasPrefix(got.Error, `unknown command "lst"; did you mean list?`) {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
