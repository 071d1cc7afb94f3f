package row

import "time"

// Optional is a pointer to s, or nil for an empty s, which is stored as NULL.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// NotNil keeps an empty body from becoming NULL.
func NotNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Micros is what PostgreSQL keeps of a time; nil for none.
func Micros(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}
