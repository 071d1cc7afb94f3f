package effect_test

import (
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
)

// Copies of a call share what the first one decoded: the body of a long list is decoded once.
func TestPayloadIsSharedByCopies(t *testing.T) {
	t.Parallel()
	call := effect.Call{Event: effect.Event{Body: []byte(`{"to":["ann@example.com"]}`)}}
	first, ok := call.Payload().(map[string]any)
	if !ok {
		t.Fatalf("%T, want a map", call.Payload())
	}
	item := call
	item.Key = "another"
	item.Event.Body = []byte("not JSON any more")
	second, ok := item.Payload().(map[string]any)
	if !ok || len(second) != len(first) {
		t.Errorf("the copy decoded the body again: %v", item.Payload())
	}
	for _, body := range []string{"", "not JSON", `{"to":`} {
		broken := effect.Call{Event: effect.Event{Body: []byte(body)}}
		if got := broken.Payload(); got != nil {
			t.Errorf("%q: %v, want nil", body, got)
		}
	}
}
