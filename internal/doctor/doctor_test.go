package doctor_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/broker/brokertest"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/doctor"
	"github.com/oncegate/oncegate/internal/egress/egresstest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog"
)

// installation is a database of the test's own and a configuration.
type installation struct {
	t      *testing.T
	url    string
	schema string
	doctor.Config
}

const plain = `
targets: { orders: { kind: noop } }
sources: { stripe: { provider: stripe, secrets: [env:SECRET], routes: [{ name: orders, target: orders }] } }
`

func install(t *testing.T, file string) *installation {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	settings, err := config.Load(config.Options{
		File: "x.yml", Content: []byte(file), Catalog: new(catalog.Lazy), Environ: []string{"SECRET=whsec_c2VjcmV0", "DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema},
	})
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{t: t, url: url, schema: schema, Config: doctor.Config{Settings: settings, Now: time.Now}}
	i.connect()
	return i
}

// connect opens new sessions, which have the present settings of the database.
func (i *installation) connect() { i.Pool = inboxtest.Open(i.t, i.url, i.schema, session.PoolAdmin, 2) }

func (i *installation) exec(sql string) {
	i.t.Helper()
	if _, err := i.Pool.Exec(i.t.Context(), sql); err != nil {
		i.t.Fatal(err)
	}
}

// findings returns what a check finds, each as "state subject: text". It also proves that every finding has a remedy.
func (i *installation) findings(check string) []string {
	i.t.Helper()
	var out []string
	for _, f := range doctor.Examine(i.t.Context(), i.Config) {
		if f.Check != check {
			continue
		}
		if (f.State == doctor.Fault || f.State == doctor.Warning) && f.Remedy == "" && check != "configuration" {
			i.t.Errorf("%s: no remedy for %q", check, f.Text)
		}
		out = append(out, fmt.Sprintf("%s %s: %s", f.State, f.Subject, f.Text))
	}
	return out
}

// expect checks that a check has one finding for each of wants, which begins with its state and subject and contains the rest.
func (i *installation) expect(check string, wants ...string) {
	i.t.Helper()
	got := i.findings(check)
	if len(got) != len(wants) {
		i.t.Errorf("%s: %q, want %q", check, got, wants)
		return
	}
	for n, want := range wants {
		start, rest, _ := strings.Cut(want, "...")
		if !strings.HasPrefix(got[n], start) || !strings.Contains(got[n], rest) {
			i.t.Errorf("%s: %q, want %q", check, got[n], want)
		}
	}
}

// Every check runs once and says something, also when nothing is wrong.
func TestEveryCheckHasAFinding(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	i.PublicURL = "http://127.0.0.1:1"
	var began []string
	i.Progress = func(check string, _, _ int) { began = append(began, check) }
	var seen []string
	for _, f := range doctor.Examine(t.Context(), i.Config) {
		seen = append(seen, f.Check)
	}
	if seen = slices.Compact(seen); !slices.Equal(seen, doctor.Checks()) || !slices.Equal(began, doctor.Checks()) {
		t.Errorf("the checks %q have findings and %q ran, want %q", seen, began, doctor.Checks())
	}
	i.expect("schema", "ok ")
	i.expect("indexes", "ok ")
	i.expect("clock", "ok ")
	i.expect("vacuum", "ok ")
	i.expect("queues", "ok ")
	i.expect("targets", "ok ")
}

// A database that is gone costs every check its result, and none of them is reported as fine.
func TestAnExaminationThatFailsIsNotFine(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	i.Pool.Close()
	for _, f := range doctor.Examine(t.Context(), i.Config) {
		if f.State == doctor.OK && f.Check != "targets" && f.Check != "brokers" && f.Check != "buffer" && f.Check != "keyring" {
			t.Errorf("%s is ok on a closed pool", f.Check)
		}
	}
	if got := doctor.Worst(doctor.Examine(t.Context(), i.Config)); got != doctor.Unknown {
		t.Errorf("the worst is %s, want unknown", got)
	}
}

func TestDurability(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	var wants []string
	for _, setting := range []string{"fsync", "full_page_writes"} {
		var value string
		if err := i.Pool.QueryRow(t.Context(), "SHOW "+setting).Scan(&value); err != nil {
			t.Fatal(err)
		}
		if value == "off" {
			wants = append(wants, "fault "+setting+": ...acknowledged")
		}
	}
	volatile := wants
	if wants == nil {
		wants = []string{"ok "}
	}
	i.expect("durability", wants...)
	for _, durability := range inbox.Durabilities() {
		i.Settings.Database.Durability = durability
		if !durability.NeedsStandby() {
			i.expect("durability", wants...)
			continue
		}
		i.expect("durability", append(slices.Clone(volatile), "fault database.durability: ...answered 503")...)
	}
}

func TestStandbys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                              string
		names                             string
		hidden, synchronous, asynchronous int
		want                              doctor.State
	}{
		{"none", "", 0, 0, 0, doctor.OK},
		{"a synchronous one", "b", 0, 1, 0, doctor.OK},
		{"a synchronous one and another", "b", 0, 1, 1, doctor.OK},
		{"commits wait", "b", 0, 0, 0, doctor.Fault},
		{"commits wait beside another", "b", 0, 0, 1, doctor.Fault},
		{"an asynchronous one", "", 0, 0, 1, doctor.Warning},
		{"not to be seen", "b", 1, 0, 0, doctor.Unknown},
	} {
		if got := doctor.Worst(doctor.StandbysFound(c.names, c.hidden, c.synchronous, c.asynchronous)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestIndexes(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	i.exec(`DROP INDEX effect_due_idx`)
	i.exec(`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_place_idx'::regclass`) // as an interrupted CREATE INDEX CONCURRENTLY leaves it
	i.expect("indexes", "fault outbox_place_idx: ...invalid", "fault effect_due_idx: ...does not exist")
}

func TestSchema(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	i.exec(`UPDATE oncegate_migration SET version = version - 1`)
	i.expect("schema", "fault : ...migrate up")
}

func TestClock(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	for offset, want := range map[time.Duration]string{-5 * time.Second: "warning : ...ahead of", time.Hour: "fault : ...behind"} {
		i.Now = func() time.Time { return time.Now().Add(offset) }
		i.expect("clock", want)
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	i.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT 20', current_database()); END $$`)
	got := i.findings("connections")
	if !slices.ContainsFunc(got, func(s string) bool {
		return strings.HasPrefix(s, "warning the database's connection limit: ") && strings.Contains(s, "of 20 connections")
	}) {
		t.Errorf("connections: %q", got)
	}
}

func TestVacuum(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	i.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET track_counts = off', current_database()); END $$`)
	i.connect()
	i.expect("vacuum", "fault track_counts: ...grow")
}

func TestRights(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	// Roles belong to the whole server, so the name is this test's alone.
	var role string
	if err := i.Pool.QueryRow(t.Context(), `SELECT 'doctor_' || current_database()`).Scan(&role); err != nil {
		t.Fatal(err)
	}
	i.exec(`CREATE ROLE ` + role + ` LOGIN`)
	t.Cleanup(func() {
		if _, err := i.Pool.Exec(context.WithoutCancel(t.Context()), `DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	before := i.findings("rights")
	if !slices.ContainsFunc(before, func(s string) bool { return strings.HasPrefix(s, "warning database ") && strings.Contains(s, "NOTIFY") }) {
		t.Errorf("rights: %q, want that every role may connect", before)
	}
	i.exec(`GRANT USAGE ON SCHEMA ` + i.schema + ` TO PUBLIC`)
	got := i.findings("rights")
	if len(got) != len(before)+1 || !strings.HasPrefix(got[0], "fault schema "+i.schema+": every role") {
		t.Errorf("rights: %q after %q", got, before)
	}
	i.exec(`DO $$ BEGIN EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database()); END $$`)
	for _, f := range i.findings("rights") {
		if strings.Contains(f, "NOTIFY") {
			t.Errorf("nobody else may connect: %s", f)
		}
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	i.exec(`INSERT INTO river_queue (name, paused_at, updated_at) VALUES ('default', '2026-11-27T10:00:00Z', now()), ('other', NULL, now())`)
	i.expect("queues", "warning queue default: ...2026-11-27T10:00:00Z")
}

func beat(t *testing.T, pool *pgxpool.Pool, name, configuration, version string, keys *seal.Keyring, roles ...string) {
	t.Helper()
	n, err := node.New(node.Config{Pool: pool, Name: name, Version: version, Roles: roles, Configuration: configuration, Keyring: keys})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	i.expect("processes", "warning receive: ", "warning work: ")
	own := i.Settings.Fingerprint()
	beat(t, i.Pool, "a", own, "1.0.0", nil, "receive", "work")
	i.expect("processes", "ok ")
	beat(t, i.Pool, "b", "another", "1.1.0", nil, "work")
	i.expect("processes", "warning : ...2 configurations", "warning : ...1.0.0 and 1.1.0")
	i.exec(`DELETE FROM node WHERE name = 'a'`)
	i.expect("processes", "warning receive: ", "warning : ...another configuration")
}

func TestKeyring(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	i.expect("keyring", "warning seal.keyring: ...plain")
	keys, err := seal.New(func() ([]byte, error) { return []byte("1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= active"), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	i.Keys = keys
	beat(t, i.Pool, "a", "c", "1.0.0", keys, "work")
	i.expect("keyring", "ok ")
	beat(t, i.Pool, "b", "c", "1.0.0", nil, "work")
	i.expect("keyring", "fault process b: ...lacks key 1")
}

func TestWarningsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	install(t, plain).expect("configuration", "warning sources.stripe.routes.orders: ...noop")
}

// listen answers every connection with a greeting, and returns its address.
func listen(t *testing.T, greeting string) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(greeting)) // a peer that is gone needs none
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

func TestTargets(t *testing.T) {
	t.Parallel()
	open := listen(t, "")
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close() // so that nothing listens there
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	i := install(t, fmt.Sprintf(`
targets:
  asked:     { kind: forward, url: "http://%[1]s/{event.id}", idempotent: true, probe: { url: "http://%[2]s/{key}" } }
  closed:    { kind: forward, url: "http://%[2]s/", idempotent: true }
  function:  { kind: sql, call: no_such_function }
  mail:      { kind: mail, smtp: "smtp://%[3]s", from: a@example.com, starttls: off }
  notmail:   { kind: mail, smtp: "smtp://%[4]s", from: a@example.com, starttls: off }
  nothing:   { kind: noop }
  private:   { kind: forward, url: "http://gone.example:1/", idempotent: true }
  statement: { kind: sql, statement: "INSERT INTO missing VALUES (@id)", parameters: { id: event.id } }
  untrusted: { kind: forward, url: "%[5]s/", idempotent: true }
  works:     { kind: sql, statement: "SELECT @id::text", parameters: { id: event.id } }
sources: { stripe: { provider: stripe, secrets: [env:SECRET], routes: [{ name: orders, target: nothing }] } }
`, open, closed.Addr(), listen(t, "220 mail.example ESMTP\r\n"), listen(t, "554 no\r\n"), untrusted.URL))
	i.Resolver = egresstest.NewNameServer(t, "").Resolver()
	got := i.findings("targets")
	slices.Sort(got)
	wants := []string{
		"fault asked (probe): no connection", "fault closed: no connection", "fault function: the database refuses", "fault notmail: it does not greet",
		"fault private: gone.example does not resolve", "fault statement: the database refuses", "fault untrusted: its certificate or TLS is refused",
	}
	if len(got) != len(wants) {
		t.Fatalf("targets: %q, want %q", got, wants)
	}
	for n := range wants {
		if !strings.HasPrefix(got[n], wants[n]) {
			t.Errorf("targets: %q, want %q", got[n], wants[n])
		}
	}
}

// front is a proxy before a receiver that refuses bodies of more than a limit, with what a receiver answers.
func front(limit int64, status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.ContentLength > limit:
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		case r.Method == http.MethodGet && r.URL.Path == "/in/stripe":
			w.Header().Set("Allow", http.MethodPost)
			w.Header().Set("Oncegate-Address-Expected", strconv.FormatBool("http://"+r.Host+"/in/stripe" == r.Header.Get("Oncegate-Expect-Address")))
			w.WriteHeader(status)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

func TestPublicAddress(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	serve := func(handler http.Handler) string {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL
	}
	const plainly = "warning 127.0.0.1:...without TLS"
	for _, c := range []struct {
		name, url string
		wants     []string
	}{
		{"a receiver", serve(front(16<<20, 405)), []string{plainly}},
		{"a proxy with a limit", serve(front(1000, 405)), []string{plainly, "fault 127.0.0.1:...answered 413"}},
		{"a proxy that changes Host", serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Host = "10.0.0.7:8080"
			front(16<<20, 405).ServeHTTP(w, r)
		})), []string{plainly, "warning 127.0.0.1:...another address"}},
		{"something else", serve(front(16<<20, 200)), []string{plainly, "fault 127.0.0.1:...answers 200"}},
		{"nothing", "http://127.0.0.1:1", []string{"fault 127.0.0.1:1: no answer"}},
		{"a path", "https://", []string{"unknown : ...not a URL"}},
	} {
		i.PublicURL = c.url
		t.Log(c.name)
		i.expect("public", c.wants...)
	}
	// The certificate of a test server is trusted by nobody.
	server := httptest.NewUnstartedServer(front(16<<20, 405))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	i.PublicURL = server.URL
	i.expect("public", "fault 127.0.0.1:...certificate")
}

// A caller that gives up is not kept.
func TestExamineEndsWithItsContext(t *testing.T) {
	t.Parallel()
	i := install(t, plain)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range doctor.Examine(ctx, i.Config) {
		if f.State == doctor.OK && f.Check == "schema" {
			t.Errorf("%s was examined", f.Check)
		}
	}
}

// A broker that is not there and a place that it does not have are faults, each with what to set, and nothing is created.
func TestBrokers(t *testing.T) {
	t.Parallel()
	nats, kafka := brokertest.NATS(t), brokertest.Kafka(t)
	there, topic := nats.NewPlace(t, 1), kafka.NewPlace(t, 1)
	i := install(t, fmt.Sprintf(`
sources:
  fine: { from: { url: %[1]q, stream: %[3]s } }
  topical: { from: { url: %[2]q, topic: %[4]s } }
  streamless: { from: { url: %[1]q, stream: MISSING } }
  topicless: { from: { url: %[2]q, topic: missing } }
  down: { from: { url: "amqp://127.0.0.1:1", queue: orders } }
  disabled: { enabled: false, from: { url: "amqp://127.0.0.1:1", queue: orders } }
`, nats.URL, kafka.URL, there, topic))
	var got []string
	for _, f := range doctor.Examine(t.Context(), i.Config) {
		if f.Check == "brokers" {
			got = append(got, f.Subject+": "+f.Remedy)
		}
	}
	want := []string{
		"down: start the broker, correct from.url, or name its network in from.allow",
		"streamless: create stream MISSING at the broker, or correct from.stream",
		"topicless: create topic missing at the broker, or correct from.topic",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
