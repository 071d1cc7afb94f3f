package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// overviewCaller answers what the overview asks.
type overviewCaller struct {
	unsettled read.Unsettled
	pruning   control.Pruning
}

func (c *overviewCaller) Call(_ context.Context, _ control.Definition, _, response any) error {
	switch response := response.(type) {
	case **control.Figures:
		*response = &control.Figures{Unsettled: c.unsettled}
	case **control.Pruning:
		pruning := c.pruning
		*response = &pruning
	}
	return nil
}

// sectionText is the text of a section of a page, with single spaces; empty without the section.
func sectionText(t *testing.T, page, id string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for n := range root.Descendants() {
		if n.Type != html.TextNode {
			continue
		}
		for p := n.Parent; p != nil; p = p.Parent {
			for _, a := range p.Attr {
				if a.Key == "id" && a.Val == id {
					words = append(words, strings.Fields(n.Data)...)
				}
			}
		}
	}
	return strings.Join(words, " ")
}

// The overview says by source and route what is held and since when the oldest effect waits, and how pruning keeps up.
func TestOverviewOfNow(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	caller := &overviewCaller{
		unsettled: read.Unsettled{Routes: []read.UnsettledRoute{
			{Source: "bank", Route: "ledger", Held: 6000, Oldest: ago(2 * time.Hour)},
			{Source: "bank", Route: "mail", Held: 6000, Oldest: ago(7 * time.Hour)},
			{Source: "shop", Route: "orders", Oldest: ago(3 * time.Hour)},
		}},
		pruning: control.Pruning{Backlog: 1200, OldestDueSeconds: 7200, Incoming: 5000, Drained: 3000, Walks: []prune.Walk{{}}},
	}
	c := newConsole(t, caller, control.ReadMetadata)
	page := get(t, c, "/overview").Body.String()
	if rows := sectionText(t, page, "unsettled"); !strings.Contains(rows, "mail bank 6,000 7 h ago orders shop 0 3 h ago ledger bank 6,000 2 h ago") {
		t.Errorf("what is unsettled is %q, and not in the order of the oldest", rows)
	}
	rows := sectionText(t, get(t, c, "/overview?show=unsettled").Body.String(), "unsettled")
	for _, want := range []string{"bank all routes 10,000+ ", "7 h ago ledger bank 6,000 ", "mail bank 6,000 ", "shop all routes 0 ", "orders shop 0 "} {
		if !strings.Contains(rows, want) {
			t.Errorf("what is unsettled is %q, without %q", rows, want)
		}
	}
	if strings.Contains(rows, "Not all were looked at") {
		t.Errorf("all were looked at, and the page says: %s", rows)
	}
	for _, want := range []string{
		`<span class="count">10,000&#43;</span> <span class="text">effects held</span>`, `<span class="count">7 h</span> <span class="text">oldest unsettled</span>`, `href="/retention#pruning"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview lacks %s", want)
		}
	}
	want := "1,200 events are overdue, the oldest for 2 h. Recorded ever: 5,000; removed ever: 3,000."
	if got := sectionText(t, page, "pruning"); !strings.Contains(got, want) {
		t.Errorf("pruning is %q, want %q", got, want)
	}

	caller.unsettled = read.Unsettled{More: true}
	caller.pruning = control.Pruning{Backlog: prune.MostBacklog, Walks: []prune.Walk{{}}}
	page = get(t, c, "/overview").Body.String()
	if got := sectionText(t, page, "unsettled"); !strings.Contains(got, "Not all were looked at") || strings.Contains(got, "Every effect is settled") {
		t.Errorf("not all were looked at, and the page says: %s", got)
	}
	if got := sectionText(t, page, "pruning"); !strings.Contains(got, "100,000+ events are overdue") {
		t.Errorf("beyond what is counted, pruning is %q", got)
	}
	caller.unsettled, caller.pruning = read.Unsettled{}, control.Pruning{}
	page = get(t, c, "/overview").Body.String()
	if got := sectionText(t, page, "unsettled"); !strings.Contains(got, "Every effect is settled") {
		t.Errorf("nothing is unsettled, and the page says: %s", got)
	}
	if got := sectionText(t, page, "pruning"); !strings.Contains(got, "Prune has not run yet") {
		t.Errorf("prune has not run, and the page says: %s", got)
	}
}

// Pruning belongs to the whole installation: whoever is limited to a tenant sees nothing of it.
func TestOverviewOfATenant(t *testing.T) {
	t.Parallel()
	c := newConsoleOf(t, &overviewCaller{}, control.Access{Actor: "ada", Scopes: control.Scopes{control.ReadMetadata}, Tenant: "acme"})
	page := get(t, c, "/overview").Body.String()
	if got := sectionText(t, page, "pruning"); got != "" || !strings.Contains(page, `id="unsettled"`) {
		t.Errorf("a tenant sees pruning as %q, or not what is unsettled", got)
	}
}

// newConsoleOf makes a console for somebody with the access.
func newConsoleOf(t *testing.T, caller control.Caller, access control.Access) *console.Console {
	t.Helper()
	c, err := console.New(console.Config{
		Caller:       func(control.Access) control.Caller { return caller },
		Authenticate: func(*http.Request) (control.Access, error) { return access, nil },
		Logger:       slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Deliveries are counted by source. The overview of a route leaves their counts out instead of showing zeros.
func TestOverviewOfARoute(t *testing.T) {
	t.Parallel()
	c := newConsole(t, &overviewCaller{}, control.ReadMetadata)
	whole, route := get(t, c, "/overview").Body.String(), get(t, c, "/overview?route=ledger").Body.String()
	for _, text := range []string{"duplicates blocked</span>", ">refused</span>", ">conflicts</span>", "answer time, p95", `id="sources"`, "Duplicates blocked"} {
		if !strings.Contains(whole, text) || strings.Contains(route, text) {
			t.Errorf("%s: on the overview %t, on the one of a route %t", text, strings.Contains(whole, text), strings.Contains(route, text))
		}
	}
	for _, text := range []string{"effects done</span>", "effects dead</span>", `id="routes"`} {
		if !strings.Contains(route, text) {
			t.Errorf("the overview of a route lacks %s", text)
		}
	}
}

// unknownCaller refuses every list, because its filter names nothing.
type unknownCaller struct{}

func (unknownCaller) Call(context.Context, control.Definition, any, any) error {
	return &control.Problem{Code: control.CodeUnknownName, Detail: `no source is named "shp"; the only source is shop`}
}

// A page whose filter names something that does not exist says so above the filter, where the user can correct it.
func TestAPageOfAFilterThatNamesNothing(t *testing.T) {
	t.Parallel()
	c := newConsole(t, unknownCaller{}, control.ReadMetadata)
	for _, path := range []string{"/events?source=shp", "/dead?source=shp", "/overview?source=shp", "/refusals?source=shp"} {
		answer := get(t, c, path)
		if page := answer.Body.String(); answer.Code != http.StatusOK || !strings.Contains(page, "No source is named &#34;shp&#34;; the only source is shop.") || !strings.Contains(page, `value="shp"`) {
			t.Errorf("%s: %d\n%s", path, answer.Code, page)
		}
	}
}
