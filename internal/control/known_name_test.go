package control_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
)

// A request that finds nothing says if its filter names a source, a route or a target that does not exist, and which do.
// A name that exists gives an empty list.
func TestAFilterThatNamesNothing(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	for _, sql := range []string{
		`INSERT INTO source (name, provider, class) VALUES ('bank', 'stripe', 'default'), ('shop', 'stripe', 'default')`,
		`INSERT INTO route (source_id, name, target, kind, digest) VALUES (1, 'ledger', 'books', 'forward', ''), (2, 'mails', 'post', 'mail', '')`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	service, err := control.NewService(control.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	all := &control.Local{Service: service, Access: control.Everything("ann")}
	ours := &control.Local{Service: service, Access: control.Access{Actor: "ann", Scopes: control.Scopes{control.Admin}, Tenant: "acme"}}
	list := func(caller control.Caller, f control.DeadLetterFilter) error {
		_, err := control.Call(t.Context(), caller, &control.ListDeadLetters, control.ListDeadLettersRequest{DeadLetterFilter: f})
		return err
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"an unknown source":           {list(all, control.DeadLetterFilter{Source: "shp"}), `no source is named "shp"; the sources are bank, shop`},
		"an unknown target":           {list(all, control.DeadLetterFilter{Target: "ledger"}), `no target is named "ledger"; the targets are books, post`},
		"an unknown route":            {list(all, control.DeadLetterFilter{Route: "mail"}), `no route is named "mail"; the routes are ledger, mails`},
		"a route of another source":   {list(all, control.DeadLetterFilter{Source: "shop", Route: "ledger"}), `no route of source shop is named "ledger"; the only route is mails`},
		"all exist":                   {list(all, control.DeadLetterFilter{Source: "shop", Route: "mails", Target: "post"}), ""},
		"no filter":                   {list(all, control.DeadLetterFilter{}), ""},
		"a tenant learns no names":    {list(ours, control.DeadLetterFilter{Source: "shp"}), ""},
		"groups":                      {callError(t, all, &control.GroupDeadLetters, control.DeadLetterFilter{Source: "shp"}), `no source is named "shp"`},
		"figures":                     {callError(t, all, &control.ShowFigures, control.ShowFiguresRequest{Route: "mail"}), `no route is named "mail"`},
		"figures of a known route":    {callError(t, all, &control.ShowFigures, control.ShowFiguresRequest{Route: "mails"}), ""},
		"refusals":                    {callError(t, all, &control.ListRefusals, control.ListRefusalsRequest{RefusalFilter: control.RefusalFilter{Source: "shp"}}), `no source is named "shp"`},
		"a dry run in its filter":     {callError(t, all, &control.DiscardDeadLetters, control.DiscardDeadLettersRequest{Filter: control.DeadLetterFilter{Source: "shp"}, DryRun: true}), `no source is named "shp"`},
		"a dry run that finds nobody": {callError(t, all, &control.DiscardDeadLetters, control.DiscardDeadLettersRequest{Filter: control.DeadLetterFilter{Source: "shop"}, DryRun: true}), ""},
	} {
		problem, _ := errors.AsType[*control.Problem](c.err)
		switch {
		case c.want == "" && c.err != nil:
			t.Errorf("%s: %v", name, c.err)
		case c.want != "" && (problem == nil || problem.Code != control.CodeUnknownName || !strings.Contains(problem.Detail, c.want)):
			t.Errorf("%s: %v, want %s", name, c.err, c.want)
		}
	}
	if (read.Page[int]{Data: []int{1}}).IsEmpty() || !(read.Page[int]{}).IsEmpty() || (read.Page[int]{HasMore: true}).IsEmpty() {
		t.Error("a page is empty without rows and without more")
	}
}

// callError carries out an operation and returns its error.
func callError[Request, Response any](t *testing.T, caller control.Caller, o *control.Operation[Request, Response], r Request) error {
	t.Helper()
	_, err := control.Call(t.Context(), caller, o, r)
	return err
}
