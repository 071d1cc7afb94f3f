package doctor_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncegate/oncegate/internal/broker/faulttest"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/doctor"
	"github.com/oncegate/oncegate/providers/catalog"
)

// TestBufferIsExamined checks what is said about the stream of the buffer, with what to set.
func TestBufferIsExamined(t *testing.T) {
	t.Parallel()
	server := faulttest.NewNATS(t, faulttest.Options{Empty: true})
	conn, err := nats.Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "expiring", Subjects: []string{"expiring.>"}, MaxAge: 1e9, Retention: jetstream.WorkQueuePolicy}); err != nil {
		t.Fatal(err)
	}
	for buffer, want := range map[string]string{
		``: "",
		`buffer: { url: "` + server.URL + `", replicas: 1, stream: unmade }`:   "warning: the servers take messages of at most 1000012B, and source hub takes bodies of up to 25MiB",
		`buffer: { url: "` + server.URL + `", replicas: 1, stream: expiring }`: "fault: stream expiring deletes messages after 1s, also those that are not recorded; set max_age to 0",
		`buffer: { url: "` + server.URL + `", stream: unmade }`:                "fault: the server belongs to no cluster, and the stream needs 3 replicas; run a cluster",
		`buffer: { url: "nats://127.0.0.1:1" }`:                                "fault: no connection to the broker",
	} {
		settings, err := config.Load(config.Options{
			File: "x.yml", Catalog: new(catalog.Lazy), Environ: []string{"DATABASE_URL=postgres://localhost/x", "SECRET=canary"},
			Content: []byte(buffer + "\nsources: { hub: { provider: github, secrets: [env:SECRET] } }\n"),
		})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, f := range doctor.Brokers(t.Context(), settings, nil) {
			if f.Check != "buffer" {
				t.Errorf("%+v", f)
			}
			lines = append(lines, string(f.State)+": "+f.Text+"; "+f.Remedy)
		}
		if got := strings.Join(lines, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", buffer, got, want)
		}
	}
}
