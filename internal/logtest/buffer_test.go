package logtest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/internal/logtest"
)

// Lines written concurrently arrive complete and can be read at the same time. The race detector
// checks the rest.
func TestBufferIsReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	var b logtest.Buffer
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 100 {
				fmt.Fprintln(&b, "a line")
				_ = b.String()
			}
		})
	}
	writers.Wait()
	if got := b.String(); got != strings.Repeat("a line\n", 800) {
		t.Errorf("800 lines became\n%s", got)
	}
}
