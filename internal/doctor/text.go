package doctor

import (
	"iter"
	"maps"

	"github.com/jackc/pgx/v5"
)

// quote quotes an identifier for SQL that a person pastes.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func either(is bool, then, otherwise string) string {
	if is {
		return then
	}
	return otherwise
}

func keysOf(m map[string]bool) iter.Seq[string] { return maps.Keys(m) }
