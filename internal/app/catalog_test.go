package app_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// entry is one provider of the catalogue, as a source that takes one delivery.
type entry struct {
	name     string
	provider *providers.Provider
	settings yaml.MapSlice // of the source, as its page shows them
	environ  []string
	vector   *providertest.Vector // nil if the delivery is signed here
	secret   string
	events   int // that the delivery holds
}

var (
	pageExample = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	pageSecret  = regexp.MustCompile(`env: ?([A-Z0-9_]+)`)
)

// entries reads every page of the catalogue: the source that its example shows, with the
// secret of one of the provider's own vectors, which is then delivered.
func entries(t *testing.T, cat map[string]*providers.Provider) []*entry {
	t.Helper()
	var out []*entry
	for _, name := range slices.Sorted(maps.Keys(cat)) {
		page, err := os.ReadFile(filepath.Join("../../providers/docs", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		example := pageExample.FindSubmatch(page)
		if example == nil {
			t.Fatalf("the page of %s has no example", name)
		}
		var file struct {
			Sources map[string]yaml.MapSlice `yaml:"sources"`
		}
		if err := yaml.UnmarshalWithOptions(example[1], &file, yaml.UseOrderedMap()); err != nil || len(file.Sources) != 1 {
			t.Fatalf("the page of %s shows %d sources: %v", name, len(file.Sources), err)
		}
		e := &entry{name: name, provider: cat[name], settings: file.Sources[name]}
		e.choose(t, pageSecret.Match(example[1]))
		for _, reference := range pageSecret.FindAllSubmatch(example[1], -1) {
			e.environ = append(e.environ, string(reference[1])+"="+e.secret)
		}
		out = append(out, e)
	}
	return out
}

// choose takes the vector whose delivery holds the fewest events, which is one for all but
// senders of batches, or makes a secret to sign with.
func (e *entry) choose(t *testing.T, withSecret bool) {
	t.Helper()
	vectors, err := providertest.Vectors(testdata.Files, e.name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range vectors {
		v := &vectors[i]
		if !v.Valid || v.Spec != "" || v.Kind == "handshake" {
			continue
		}
		bound, err := v.Bind(e.provider)
		if err != nil {
			continue
		}
		secrets := v.Secrets()
		if withSecret && len(secrets) == 0 || !slices.Contains(bound.Limits().Methods, v.Method) {
			continue
		}
		delivery, err := bound.Verify(v.Request(), secrets[:min(1, len(secrets))])
		if err != nil || len(delivery.Items) == 0 || slices.ContainsFunc(delivery.Items, func(i providers.Item) bool { return i.Unusable != "" }) {
			continue
		}
		if e.vector != nil && len(delivery.Items) >= e.events {
			continue
		}
		e.vector, e.events, e.secret = v, len(delivery.Items), ""
		if len(secrets) > 0 {
			e.secret = string(secrets[0].Value)
		}
	}
	if e.vector == nil {
		e.secret, e.events = "0123456789abcdef0123456789abcdef", 1
		return
	}
	e.adapt()
}

// adapt gives the source what belongs to the vector's sender and not to the reader's: the
// values of settings, which the page has examples of, and the address.
func (e *entry) adapt() {
	set := func(name string, value any) {
		e.settings = slices.DeleteFunc(e.settings, func(item yaml.MapItem) bool { return item.Key == name })
		e.settings = append(e.settings, yaml.MapItem{Key: name, Value: value})
	}
	if len(e.vector.Settings) > 0 {
		settings := yaml.MapSlice{}
		for _, name := range slices.Sorted(maps.Keys(e.vector.Settings)) {
			var references []string
			for i, value := range e.vector.Settings[name] {
				variable := strings.ToUpper(strings.ReplaceAll(fmt.Sprintf("SETTING_%s_%s_%d", e.name, name, i), "-", "_"))
				e.environ = append(e.environ, variable+"="+value)
				references = append(references, "env:"+variable)
			}
			if len(references) == 1 {
				settings = append(settings, yaml.MapItem{Key: name, Value: references[0]})
			} else {
				settings = append(settings, yaml.MapItem{Key: name, Value: references})
			}
		}
		set("settings", settings)
	}
	if address, _, _ := strings.Cut(e.vector.URL, "?"); strings.HasPrefix(address, "http") {
		set("external_url", address)
	}
}

// request is the delivery, to be sent to the address, and the time at which it is received.
func (e *entry) request(t *testing.T, source *config.Source, base string) (*http.Request, time.Time) {
	t.Helper()
	address := base + "/in/" + e.name
	var made *providers.Request
	if e.vector != nil {
		made = e.vector.Request()
		if _, query, found := strings.Cut(made.URL, "?"); found {
			address += "?" + query
		}
		made.URL = address
	} else {
		made = e.sign(t, source, address)
	}
	request, err := http.NewRequestWithContext(t.Context(), cmp.Or(made.Method, http.MethodPost), made.URL, bytes.NewReader(made.Body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, made.Header)
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	request.Header.Del("Content-Length")
	if e.vector != nil && e.vector.Remote != "" {
		request.Header.Set("X-Forwarded-For", e.vector.Remote)
	}
	return request, made.ReceivedAt
}

func (e *entry) sign(t *testing.T, source *config.Source, address string) *providers.Request {
	t.Helper()
	id := "evt_of_" + e.name
	made, ok := providertest.Example(e.provider, id, time.Now())
	if !ok {
		made = &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(`{"id":"` + id + `"}`), ReceivedAt: time.Now()}
	}
	made.URL = address
	made.Header.Set("Content-Type", cmp.Or(made.Header.Get("Content-Type"), "application/json"))
	bound, err := e.provider.Bind(providers.Binding{Settings: source.Values(), Fetcher: providertest.Keys{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := bound.Sign(made, providers.Secret{Name: "page", Value: []byte(e.secret)}, id); err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	return made
}

// All entries of the catalogue start together, each as the example of its own page declares
// it, and each records the one event of a delivery that its sender made. Recorded
// deliveries are received at the time of their recording, with the keys that were published then.
func TestEveryEntryStartsFromItsPageAndRecords(t *testing.T) {
	t.Parallel()
	cat := catalogtest.Load(t)
	all := entries(t, cat)
	url, schema := inboxtest.Schema(t)
	sources := yaml.MapSlice{}
	environ := []string{"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "ONCEGATE_TRUSTED_PROXIES=127.0.0.1"}
	keys := map[string]providers.Fetcher{}
	for _, e := range all {
		sources = append(sources, yaml.MapItem{Key: e.name, Value: append(e.settings,
			yaml.MapItem{Key: "routes", Value: []yaml.MapSlice{{{Key: "name", Value: "nowhere"}, {Key: "target", Value: "nowhere"}}}})})
		environ = append(environ, e.environ...)
		keys[e.name] = providertest.Keys{}
		if e.vector != nil {
			keys[e.name] = providertest.Keys(e.vector.Keys)
		}
	}
	text, err := yaml.Marshal(yaml.MapSlice{
		{Key: "targets", Value: yaml.MapSlice{{Key: "nowhere", Value: map[string]string{"kind": "noop"}}}}, {Key: "sources", Value: sources},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{File: "pages.yml", Content: text, Environ: environ, Catalog: cat})
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Pointer[time.Time]
	start := time.Now()
	now.Store(&start)
	settings := app.Config{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Receive: true, Version: "test"}
	settings.ReceiveAs(func() time.Time { return *now.Load() }, func(source string) providers.Fetcher { return keys[source] })
	if err := app.Check(t.Context(), settings); err != nil {
		t.Fatalf("config check refuses it: %v", err)
	}
	a, err := app.New(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(t.Context()) })
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	signed := 0
	all = slices.DeleteFunc(all, func(e *entry) bool { return e.provider.IsMessage() }) // comes from a broker: TestMessagesAreRecordedOnce
	for _, e := range all {
		source := cfg.Sources[slices.IndexFunc(cfg.Sources, func(s *config.Source) bool { return s.Name == e.name })]
		request, at := e.request(t, source, "http://"+a.PublicAddr().String())
		now.Store(&at)
		response, err := client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode/100 != 2 {
			t.Errorf("%s answered %d %s", e.name, response.StatusCode, answer)
		}
		if e.vector == nil {
			signed++
		}
	}
	t.Logf("%d entries, %d of them signed here", len(all), signed)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
	rows, err := pool.Query(t.Context(), `SELECT s.name, count(e.id), count(e.id) FILTER (WHERE e.admission = 'unusable') FROM source s LEFT JOIN inbox_event e ON e.source_id = s.id GROUP BY s.name`)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]int{}
	for rows.Next() {
		var name string
		var events, dead int
		if err := rows.Scan(&name, &events, &dead); err != nil {
			t.Fatal(err)
		}
		recorded[name] = events - dead
	}
	for _, e := range all {
		if recorded[e.name] != e.events {
			t.Errorf("%s: %d events are recorded, want %d", e.name, recorded[e.name], e.events)
		}
	}
}
