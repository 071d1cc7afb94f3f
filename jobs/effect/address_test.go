package effect_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
)

func TestWhatIsRenderedIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, want := range []effect.Rendered{
		{}, {Body: []byte(`{"a":1}`)}, {Body: []byte("\nbody\n")}, {Address: "https://a/1"}, {Address: "https://a/1", Body: []byte(`{}`)},
		{Address: "https://a/1", Body: []byte{}}, {Address: "https://a/1", Body: []byte("x\nreceived\n")}, {Address: "https://a/1", Body: []byte("\x00address y\nbody\n")},
	} {
		got, err := effect.ReadRendered(want.Bytes())
		if err != nil || got.Address != want.Address || !bytes.Equal(got.Body, want.Body) || (got.Body == nil) != (want.Body == nil) {
			t.Errorf("%q: %q %q, %v", want.Bytes(), got.Address, got.Body, err)
		}
	}
	for _, unreadable := range []string{"\x00address ", "\x00address https://a/1", "\x00address \nbody\nx", "\x00address a\nb\nbody\n", "\x00address https://a/1\nlater form\n"} {
		if got, err := effect.ReadRendered([]byte(unreadable)); !errors.Is(err, effect.ErrRendered) {
			t.Errorf("%q: %+v, %v", unreadable, got, err)
		}
	}
	// What is stored is an interface between versions of the program.
	if got := string(effect.Rendered{Address: "https://a/1", Body: []byte("{}")}.Bytes()); got != "\x00address https://a/1\nbody\n{}" {
		t.Errorf("%q", got)
	}
}
