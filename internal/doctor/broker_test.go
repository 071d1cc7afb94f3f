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

// examined returns the findings about one target of kind publish, as "state: text; remedy" lines.
func examined(t *testing.T, target string) string {
	t.Helper()
	settings, err := config.Load(config.Options{
		File: "x.yml", Catalog: new(catalog.Lazy), Environ: []string{"DATABASE_URL=postgres://localhost/x", "PASSWORD=canary"},
		Content: []byte("targets: { out: { kind: publish, " + target + " } }\nsources: {}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range doctor.Brokers(t.Context(), settings, nil) {
		if f.Subject != "out" {
			t.Errorf("%+v", f)
		}
		lines = append(lines, string(f.State)+": "+f.Text+"; "+f.Remedy)
	}
	return strings.Join(lines, "\n")
}

func TestBrokersAreExamined(t *testing.T) {
	t.Parallel()
	stream := faulttest.NewNATS(t, faulttest.Options{Account: true})
	topic := faulttest.NewKafka(t, faulttest.Options{})
	away := faulttest.NewNATS(t, faulttest.Options{Fault: faulttest.Fault{Greeting: faulttest.Cut}})
	addStream(t, stream)
	account := ", username: " + faulttest.Username + ", password: [env:PASSWORD]"
	for name, c := range map[string]struct {
		target string
		want   []string
	}{
		"a stream in memory":       {`url: "` + withAccount(stream.URL) + `", subject: orders.paid`, []string{"warning: stream orders keeps messages in memory", "warning: stream orders has 1 replica"}},
		"a stream without acks":    {`url: "` + withAccount(stream.URL) + `", subject: bad.x`, []string{"fault: stream bad acknowledges nothing"}},
		"a stream that discards":   {`url: "` + withAccount(stream.URL) + `", subject: bad.x`, []string{"warning: stream bad discards its oldest messages"}},
		"no stream":                {`url: "` + withAccount(stream.URL) + `", subject: bills.x`, []string{"fault: no stream takes subject bills.x; create"}},
		"another stream":           {`url: "` + withAccount(stream.URL) + `", subject: orders.x, stream: bills`, []string{"fault: stream orders takes subject orders.x, and not bills; set stream: orders"}},
		"no stream of the name":    {`url: "` + withAccount(stream.URL) + `", subject: "orders.{event.id}", stream: bills`, []string{"fault: there is no stream bills"}},
		"a long key window":        {`url: "` + withAccount(stream.URL) + `", subject: orders.x, key_window: 1h`, []string{"warning: stream orders forgets the ids of messages after 2m, and key_window is 1h; set key_window: 2m"}},
		"a wrong password":         {`url: "` + stream.URL + `", subject: orders.x` + account, []string{"fault: the broker refused it: the account or its password is wrong; correct username and password"}},
		"a server that hangs up":   {`url: "` + away.URL + `", subject: orders.x`, []string{"fault: no connection to the broker"}},
		"nobody":                   {`url: "kafka://127.0.0.1:1", topic: orders`, []string{"fault: no connection to the broker: dial tcp 127.0.0.1:1: connect: connection refused; start the broker"}},
		"no topic":                 {`url: "` + topic.URL + `", topic: bills`, []string{"fault: topic bills cannot be used: UNKNOWN_TOPIC_OR_PARTITION"}},
		"a topic of one replica":   {`url: "` + topic.URL + `", topic: orders`, []string{"warning: topic orders has one replica"}},
		"a limit over the topic's": {`url: "` + topic.URL + `", topic: orders, max_message: 8MiB`, []string{"fault: topic orders takes batches of 1048588 bytes, and max_message is 8388608; set max_message: 1048588"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := examined(t, c.target)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
			}
			if strings.Contains(got, "canary") {
				t.Errorf("%q tells the password", got)
			}
		})
	}
}

func withAccount(url string) string {
	return strings.Replace(url, "nats://", "nats://"+faulttest.Username+":"+faulttest.Password+"@", 1)
}

// addStream makes a stream that loses messages.
func addStream(t *testing.T, s *faulttest.Server) {
	t.Helper()
	conn, err := nats.Connect(withAccount(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "bad", Subjects: []string{"bad.>"}, NoAck: true, MaxMsgs: 10, Discard: jetstream.DiscardOld})
	}
	if err != nil {
		t.Fatal(err)
	}
}
