package inbox_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// past is what a gate recorded whose clock can be set back.
type past struct{ *storetest.Past }

func newPast(tb testing.TB) *past {
	tb.Helper()
	return &past{storetest.NewPast(tb)}
}
