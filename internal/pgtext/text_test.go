package pgtext_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// PostgreSQL itself decides whether it can store a text.
func TestPostgreSQLStoresWhatIsClean(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	for name, c := range map[string]struct {
		text string
		n    int
		want string
	}{
		"plain":                 {"fine", 10, "fine"},
		"to the last byte":      {"fine", 4, "fine"},
		"cut":                   {"finer", 4, "fine"},
		"nothing left":          {"ä", 1, ""},
		"NUL":                   {"a\x00b", 10, "a\uFFFDb"},
		"no UTF-8":              {"a\xff\xfeb", 10, "a\uFFFDb"},
		"half a character":      {"a\xc3", 10, "a\uFFFD"},
		"a surrogate":           {"a\xed\xa0\x80", 10, "a\uFFFD"},
		"cut in a character":    {"aä", 2, "a"},
		"cut in a replacement":  {"a\x00", 3, "a"},
		"a character too many":  {strings.Repeat("€", 3), 8, "€€"},
		"four bytes, one short": {"😀😀", 7, "😀"},
	} {
		got := pgtext.Clean(c.text, c.n)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		var back string
		if err := pool.QueryRow(t.Context(), `SELECT $1::text`, got).Scan(&back); err != nil || back != got {
			t.Errorf("%s: PostgreSQL gives back %q: %v", name, back, err)
		}
	}
}
