package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/internal/app"
)

// The codes are from appendix A of PostgreSQL's documentation.
func TestReportSaysWhatToDoAboutTheSchema(t *testing.T) {
	t.Parallel()
	for code, what := range map[string]string{"42P01": "undefined_table", "42703": "undefined_column"} {
		err := fmt.Errorf("listing: %w", &pgconn.PgError{Code: code, Message: "of another version"})
		if got := cli.Report(err); !strings.Contains(got, "run `oncegate migrate up`") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestAStartThatGaveUpIsWorthTryingAgain(t *testing.T) {
	t.Parallel()
	if code := cli.ExitCode(fmt.Errorf("starting: %w", &app.LockError{What: "register sources and routes"})); code != 75 {
		t.Errorf("exit code %d, want 75", code)
	}
}
