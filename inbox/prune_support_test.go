package inbox_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

const day = storetest.Day

// keepDefault are the horizons of the class default in these tests.
var keepDefault = storetest.KeepDefault

// past is what a gate recorded whose clock can be set back.
type past struct{ *storetest.Past }

func newPast(tb testing.TB) *past {
	tb.Helper()
	return &past{storetest.NewPast(tb)}
}
