package registry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/registry"
)

// A changed recipe makes another key of the same call: it was carried out again.
func TestAChangedRecipeRepeatsNothingUnlessItSaysSo(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	with := func(version int, words string) registry.Source {
		s := src("shop")
		if words != "" {
			s.Routes[0].Key = &registry.KeyRecipe{Version: version, Words: words}
		}
		return s
	}
	const owner = `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
		SELECT id, sha256(random()::text::bytea), gen_random_uuid(), now(), now() + interval '30 d' FROM route`
	refuses := func(s registry.Source, want string) {
		t.Helper()
		registration := registry.Registration{Pool: pool, Sources: []registry.Source{s}}
		_, err := registration.Write(t.Context())
		if !errors.Is(err, registry.ErrRecipe) || !strings.Contains(err.Error(), want) {
			t.Errorf("a start with the key %s gave %v, want ErrRecipe with %q", s.Routes[0].Key, err, want)
		}
		if _, checked := registration.Check(t.Context()); checked == nil || checked.Error() != err.Error() {
			t.Errorf("a check with the key %s gave %v, want what a start gives: %v", s.Routes[0].Key, checked, err)
		}
	}
	register(t, pool, with(1, ""))
	register(t, pool, with(1, "fields [body.order]"))
	register(t, pool, with(1, "fields [body.id]")) // there is no key that it could matter for
	storetest.Exec(t, pool, owner)
	refuses(with(1, "fields [body.id, body.item]"), "route shop/all is fields [body.id, body.item], version 1, and was fields [body.id], version 1, under which it holds 1 key")
	register(t, pool, with(2, "fields [body.id, body.item]")) // that says so
	register(t, pool, with(1, "fields [body.id]"))            // a process with the configuration before starts again
	register(t, pool, with(2, "fields [body.id, body.item]"))
	refuses(with(2, "fields [body.item]"), "Raise the key's version")
	renamed := with(2, "fields [body.item]")
	renamed.Name, renamed.PreviousNames = "store", []string{"shop"}
	refuses(renamed, "route store/all is fields [body.item]")
	register(t, pool, with(2, ""))
}
