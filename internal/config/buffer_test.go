package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

// loadBuffer loads a configuration with a buffer and a source of each kind.
func loadBuffer(buffer string) (*config.Config, error) {
	return config.Load(config.Options{
		File: "x.yml", Catalog: new(catalog.Lazy),
		Environ: []string{"SECRET=whsec_c2VjcmV0", "CALLER=c2VjcmV0-of-a-caller-0123", "DATABASE_URL=postgres://localhost/x", "NATS=nats://bob:canary@a:1,b", "PASSWORD=canary"},
		Content: []byte("buffer: " + buffer + `
targets: { out: { kind: noop } }
sources:
  any: { provider: stripe, secrets: [env:SECRET], routes: [{ name: r, target: out }] }
  line: { provider: stripe, secrets: [env:SECRET], routes: [{ name: r, target: out, order: { mode: arrival, key: body.id } }] }
  queue: { from: { url: "nats://q", stream: q }, routes: [{ name: r, target: out }] }
  calls: { provider: operation, secrets: [{ env: CALLER, name: caller }], routes: [{ name: r, target: out }] }
`),
	})
}

func TestBuffer(t *testing.T) {
	t.Parallel()
	for buffer, want := range map[string]struct {
		stream, user, password string
		replicas               int
		after                  time.Duration
		buffered               string
		warnings               int
	}{
		`{ url: "nats://a,b,c" }`:                                                      {"oncegate", "", "", 3, 2 * time.Second, "any", 1},
		`{ url: "nats://a", replicas: 1, when: always }`:                               {"oncegate", "", "", 1, 2 * time.Second, "any line", 1},
		`{ url: env:NATS, stream: webhooks, after: 500ms }`:                            {"webhooks", "bob", "canary", 3, 500 * time.Millisecond, "any", 1},
		`{ url: "tls://a", username: ann, password: env:PASSWORD, when: unavailable }`: {"oncegate", "ann", "canary", 3, 2 * time.Second, "any", 1},
	} {
		cfg, err := loadBuffer(buffer)
		if err != nil {
			t.Errorf("%s: %v", buffer, err)
			continue
		}
		var buffered []string
		for _, s := range cfg.Sources {
			if cfg.Buffers(s) {
				buffered = append(buffered, s.Name)
			}
		}
		s := cfg.Buffer.StreamConfig()
		if s.Name != want.stream || s.Username != want.user || s.Password != want.password || s.Replicas != want.replicas || cfg.Buffer.Wait() != want.after || strings.Join(buffered, " ") != want.buffered {
			t.Errorf("%s: %s, %s, %d replicas, after %s, for %s", buffer, s.Name, s.Username, s.Replicas, cfg.Buffer.Wait(), buffered)
		}
		about := 0
		for _, warning := range cfg.Warnings {
			if strings.Contains(warning, "buffer") {
				about++
			}
		}
		if about != want.warnings {
			t.Errorf("%s: %q", buffer, cfg.Warnings)
		}
		printed, err := yaml.Marshal(cfg.Effective())
		if err != nil || strings.Contains(string(printed), "canary") || !strings.Contains(string(printed), "buffer:") {
			t.Errorf("%s: %v, printed as %s", buffer, err, printed)
		}
	}
}

func TestWrongBuffers(t *testing.T) {
	t.Parallel()
	for buffer, want := range map[string]string{
		`{ replicas: 3 }`:                                           "url is missing: the NATS servers",
		`{ url: "kafka://a" }`:                                      "the buffer is a stream of NATS JetStream: want nats:// or tls://",
		`{ url: "http://a" }`:                                       "want kafka://",
		`{ url: "nats://u:canary%zz@a" }`:                           "percent-encode special characters",
		`{ url: "nats://a", replicas: 7 }`:                          "JetStream stores 1 to 5",
		`{ url: "nats://a", replicas: 0 }`:                          "replicas",
		`{ url: "nats://a", stream: "a.b" }`:                        "a name is at most 63 of a-z",
		`{ url: "nats://a", when: sometimes }`:                      "known are unavailable, always",
		`{ url: "nats://a", after: 8s }`:                            "must be shorter than gate.deadline, which is 8s",
		`{ url: "nats://a", password: env:MISSING }`:                "MISSING",
		`{ url: "nats://a", username: u }`:                          "",
		`{ url: "nats://a", password: [env:PASSWORD, env:SECRET] }`: "NATS takes one",
		`[a]`: "mapping",
	} {
		_, err := loadBuffer(buffer)
		switch {
		case want == "" && err == nil:
		case err == nil:
			t.Errorf("%s was taken", buffer)
		case !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary"):
			t.Errorf("%s: %v", buffer, err)
		}
	}
}
