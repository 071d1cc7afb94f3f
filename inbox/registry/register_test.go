package registry_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/registry"
)

// counter counts the statements that a pool sends.
type counter struct{ statements atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	c.statements.Add(1)
}

func (*counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A start with many sources writes them by a handful of statements, the first time, again, and when every name changes.
func TestRegisteringTakesAHandfulOfStatements(t *testing.T) {
	t.Parallel()
	cfg := inboxtest.Pool(t).Config()
	count := new(counter)
	cfg.ConnConfig.Tracer = count
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	const sources, most = 2000, 20
	configured := func(name string, previous string) (out []registry.Source) {
		for i := range sources {
			s := registry.Source{Name: fmt.Sprint(name, i), Provider: "test", Class: "default", Separate: true}
			s.Routes = []registry.Route{{
				Name: "all", Target: "sink", Kind: "forward", Digest: fmt.Append(nil, name), Definition: []byte(`{"name":"all"}`),
				Key: &registry.KeyRecipe{Version: 1, Words: "event.type"},
			}}
			if previous != "" {
				s.PreviousNames = []string{fmt.Sprint(previous, i)}
			}
			out = append(out, s)
		}
		return out
	}
	var first map[string]registry.Registered
	for _, c := range []struct {
		what, name, previous string
		version              int32
	}{{"the first time", "shop", "", 1}, {"again", "shop", "", 1}, {"under other names", "store", "shop", 2}} {
		count.statements.Store(0)
		got, err := registry.Register(t.Context(), pool, configured(c.name, c.previous))
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if n := count.statements.Load(); n > most {
			t.Errorf("%s: %d statements for %d sources, want at most %d", c.what, n, sources, most)
		}
		if first == nil {
			first = got
		}
		for i := range sources {
			was, is := first[fmt.Sprint("shop", i)], got[fmt.Sprint(c.name, i)]
			if is.ID == 0 || is.ID != was.ID || is.KeyName != fmt.Sprint("shop", i) || is.Routes["all"].ID != was.Routes["all"].ID || is.Routes["all"].Version != c.version {
				t.Fatalf("%s: source %d is %+v, and was %+v", c.what, i, is, was)
			}
		}
	}
	var versions, recipes, past int
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM route_version WHERE definition ->> 'name' = 'all'), (SELECT count(*) FROM key_recipe),
		(SELECT count(*) FROM past_name WHERE route_id IS NULL)`).Scan(&versions, &recipes, &past); err != nil || versions != 2*sources || recipes != sources || past != sources {
		t.Errorf("%d versions, %d recipes, %d past names (%v)", versions, recipes, past, err)
	}
}
