package prune_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
)

// An erasure of refusals removes those that match all conditions and leaves the others, also where they are sealed.
func TestEraseRefusals(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	keys, lost := storetest.RingOf(t, storetest.FirstKey+" active"), storetest.RingOf(t, storetest.SecondKey+" active")
	for name, c := range map[string]struct {
		request    prune.EraseRefusals
		byID       []string
		left       string // the names of the refusals that stay, in order
		unreadable int
	}{
		"by id":                     {byID: []string{"b", "d"}, left: "a c e f"},
		"by address":                {request: prune.EraseRefusals{Peer: "192.0.2.2"}, left: "a c d e f"},
		"since":                     {request: prune.EraseRefusals{Since: noon.Add(2 * time.Hour)}, left: "a b"},
		"until":                     {request: prune.EraseRefusals{Until: noon.Add(2 * time.Hour)}, left: "c d e f"},
		"by a text, in any case":    {request: prune.EraseRefusals{Containing: "ANN@example.com"}, left: "a d f", unreadable: 1},
		"by a text within a time":   {request: prune.EraseRefusals{Containing: "ann@example.com", Until: noon.Add(2 * time.Hour)}, left: "a c d e f"},
		"by a text that is nowhere": {request: prune.EraseRefusals{Containing: "bob@example.com"}, left: "a b c d e f", unreadable: 1},
		"all conditions":            {request: prune.EraseRefusals{Containing: "ann@example.com", Peer: "192.0.2.1"}, byID: []string{"b", "c", "f"}, left: "a b d e f", unreadable: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := storetest.NewPast(t)
			ids := map[string]inbox.ID{}
			for i, r := range []struct{ name, peer, url, body string }{
				{"a", "192.0.2.1", "/in/shop", `{"mail":"eve@example.com"}`},
				{"b", "192.0.2.2", "/in/shop", `{"mail":"Ann@Example.com"}`},
				{"c", "192.0.2.1", "/in/shop?mail=ann%40example.com", `{}`},
				{"d", "192.0.2.1", "/in/shop", `{}`},
				{"e", "192.0.2.1", "/in/shop", `sealed: ann@example.com`},
				{"f", "192.0.2.1", "/in/shop", `lost: ann@example.com`},
			} {
				at := noon.Add(time.Duration(i) * time.Hour)
				id := inbox.NewID(at)
				ids[r.name] = id
				headers, body, key := []byte(`{}`), []byte(r.body), (*int32)(nil)
				switch r.name {
				case "e":
					headers, body, key = place.SealRefusal(keys, id, headers, body)
				case "f":
					headers, body, key = place.SealRefusal(lost, id, headers, body)
				}
				p.Exec(t, `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, peer, key_id, headers, body, size)
					VALUES ($1, $2, $3, 'signature_mismatch', 'wrong secret', true, 'POST', $4, $5, $5, $6, $7, $8, 1)`, id, p.Source.ID, at, r.url, r.peer, key, headers, body)
			}
			request := c.request
			request.Source, request.Actor, request.Reason, request.Keyring = p.Source.Name, "ann", "ticket 4711", keys
			for _, n := range c.byID {
				request.IDs = append(request.IDs, ids[n])
			}
			out, err := request.Run(t.Context(), p.Pool)
			var left []string
			for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
				if p.Count(t, `SELECT count(*) FROM refusal WHERE id = $1`, ids[n]) == 1 {
					left = append(left, n)
				}
			}
			if got := strings.Join(left, " "); err != nil || got != c.left || out.Refusals != 6-len(left) || out.Unreadable != c.unreadable {
				t.Errorf("%+v, %v, left %q, want %q", out, err, got, c.left)
			}
			if n := p.Count(t, `SELECT count(*) FROM audit WHERE action = 'refusal.erase' AND actor = 'ann' AND before::text NOT ILIKE '%example.com%'`); n != 1 {
				t.Errorf("%d entries in the audit that omit the text, want 1", n)
			}
		})
	}
	t.Run("refuses", func(t *testing.T) {
		t.Parallel()
		p := storetest.NewPast(t)
		for _, request := range []prune.EraseRefusals{{}, {Containing: "ann"}} {
			request.Source, request.Actor, request.Reason = p.Source.Name, "ann", "ticket 4711"
			if _, err := request.Run(t.Context(), p.Pool); !errors.Is(err, prune.ErrRefusalScope) {
				t.Errorf("%+v: %v", request, err)
			}
		}
		unknown := prune.EraseRefusals{Source: "no-such-source", Peer: "192.0.2.1", Actor: "ann", Reason: "ticket 4711"}
		if _, err := unknown.Run(t.Context(), p.Pool); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("an unknown source: %v", err)
		}
		if n := p.Count(t, `SELECT count(*) FROM audit`); n != 0 {
			t.Errorf("%d entries in the audit for refused requests", n)
		}
	})
}
