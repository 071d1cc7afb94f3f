package console

import (
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// findOther returns the page of the object other than an event that has one of our ids. It is empty
// if there is none.
func findOther(r *request, q string) (string, error) {
	id, err := inbox.ParseID(q)
	if err != nil {
		return "", nil //nolint:nilerr // only an id names anything else
	}
	ask := control.IDRequest{ID: id}
	looks := []struct {
		path string
		look func() error
	}{
		{"/effects/", func() error { _, err := call(r, &control.ShowEffect, ask); return err }},
		{"/replays/", func() error { _, err := call(r, &control.ShowReplay, ask); return err }},
		{"/conflicts/", func() error { _, err := call(r, &control.ShowConflict, ask); return err }},
		{"/refusals/", func() error { _, err := call(r, &control.ShowRefusal, ask); return err }},
	}
	for _, l := range looks {
		err := l.look()
		if err == nil {
			return l.path + id.String(), nil
		}
		if control.ProblemOf(err).Code != control.CodeNotFound {
			return "", err
		}
	}
	return "", nil
}
