package row

import "strings"

// Storable reports whether PostgreSQL can store the text in its bounded columns.
// Providers check this too; the gate must not depend on it, since one row that
// cannot be stored fails its whole group.
func Storable(s string) bool {
	return len(s) >= 1 && len(s) <= 255 && strings.ToValidUTF8(s, "") == s && !strings.ContainsRune(s, 0)
}
