package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/buffer"
	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// bufferCaller answers what the start page and the page of the processes ask.
type bufferCaller struct{ buffer *buffer.Status }

func (c *bufferCaller) Call(_ context.Context, _ control.Definition, _, response any) error {
	switch response := response.(type) {
	case **control.Status:
		*response = &control.Status{Time: now, Buffer: c.buffer}
	case *attention.Attention:
		*response = attention.Attention{LastEvent: &now}
	}
	return nil
}

// TestPagesShowTheBuffer checks that the start page and the page of the processes say what the buffer keeps.
func TestPagesShowTheBuffer(t *testing.T) {
	t.Parallel()
	caller := &bufferCaller{}
	c, err := console.New(console.Config{
		Caller:       func(control.Access) control.Caller { return caller },
		Authenticate: func(*http.Request) (control.Access, error) { return control.Everything("ada"), nil },
		Logger:       slog.New(slog.DiscardHandler), Now: func() time.Time { return now }, Buffered: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	before := now.Add(-3 * time.Minute)
	for want, state := range map[string]*buffer.Status{
		"": nil,
		"The buffer works. when: always; connected; nothing waits":                                       {When: "always", Connected: true, Active: new(false), Waiting: new(int64(0))},
		"Deliveries go to the buffer. when: unavailable; connected; waiting: 7, the oldest for 3m0s":     {When: "unavailable", Connected: true, Active: new(true), Waiting: new(int64(7)), OldestAt: &before},
		"The buffer is away: this process reaches none of its servers. when: unavailable; not connected": {When: "unavailable", Active: new(false)},
	} {
		caller.buffer = state
		for _, path := range []string{"/", "/nodes"} {
			if got := sectionText(t, get(t, c, path).Body.String(), "buffer"); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	}
}
