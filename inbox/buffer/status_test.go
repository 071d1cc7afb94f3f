package buffer_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/buffer"
)

func TestStatusInWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	before, later := now.Add(-3*time.Minute), now.Add(time.Second)
	for want, s := range map[string]buffer.Status{
		"when: always; connected; nothing waits":                                                                       {When: "always", Connected: true, Active: new(false), Waiting: new(int64(0))},
		"when: unavailable; connected; waiting: 12, the oldest for 3m0s":                                               {When: "unavailable", Connected: true, Waiting: new(int64(12)), OldestAt: &before},
		"when: unavailable; connected; waiting: 1, the oldest for 0s":                                                  {When: "unavailable", Connected: true, Waiting: new(int64(1)), OldestAt: &later},
		"when: unavailable; not connected; waiting: 4; deliveries go to it now, because the gate does not record them": {When: "unavailable", Active: new(true), Waiting: new(int64(4))},
		"when: unavailable; not connected; how many deliveries wait is unknown":                                        {When: "unavailable"},
	} {
		if got := s.Words(now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
