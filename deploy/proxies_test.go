package deploy_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers/catalog"
)

// setting returns the only value that a pattern finds in a file.
func setting(t *testing.T, path, pattern string) string {
	t.Helper()
	found := regexp.MustCompile("(?m)"+pattern).FindAllStringSubmatch(read(t, path), -1)
	if len(found) != 1 {
		t.Fatalf("%s: %q is there %d times, want once", path, pattern, len(found))
	}
	return found[0][1]
}

// Between the proxy and a receiver, the proxy closes an idle connection first. Otherwise it sends a delivery into a connection that is
// being closed.
func TestProxiesCloseIdleConnectionsFirst(t *testing.T) {
	t.Parallel()
	limit := documented(t, "listen.idle_timeout")
	for path, pattern := range map[string]string{
		"nginx/oncegate.conf": `^    keepalive_timeout (\w+);\n}`, "caddy/Caddyfile": `^\s+keepalive (\w+)$`,
		"haproxy/haproxy.cfg": `pool-purge-delay (\w+)$`, "traefik/oncegate.yml": `^\s+idleConnTimeout: (\w+)$`,
	} {
		if kept := duration(t, setting(t, path, pattern)); kept <= 0 || kept >= limit {
			t.Errorf("%s keeps idle connections for %s, and Oncegate for %s", path, kept, limit)
		}
	}
}

// A proxy that gives up before Oncegate answers 504 for a delivery that is recorded. 0s is no limit.
func TestProxiesWaitForTheAnswer(t *testing.T) {
	t.Parallel()
	longest := longestAnswer(t)
	for path, patterns := range map[string][]string{
		"nginx/oncegate.conf":  {`proxy_read_timeout\s+(\w+);`},
		"caddy/Caddyfile":      {`response_header_timeout (\w+)$`, `grace_period (\w+)$`},
		"haproxy/haproxy.cfg":  {`timeout server\s+(\w+)$`, `hard-stop-after (\w+)$`},
		"traefik/oncegate.yml": {`responseHeaderTimeout: (\w+)$`},
		"traefik/traefik.yml":  {`writeTimeout: (\w+)$`, `graceTimeOut: (\w+)$`},
	} {
		for _, pattern := range patterns {
			if limit := duration(t, setting(t, path, pattern)); limit > 0 && limit <= longest {
				t.Errorf("%s: %s is %s, and Oncegate may take %s", path, pattern, limit, longest)
			}
		}
	}
}

// nginx is the only one of them that limits bodies.
func TestNginxTakesEveryBodyOfTheCatalogue(t *testing.T) {
	t.Parallel()
	megabytes, err := strconv.ParseInt(setting(t, "nginx/oncegate.conf", `client_max_body_size (\d+)m;`), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	known, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, provider := range known {
		if largest := provider.Limits().MaxBody; megabytes<<20 < largest {
			t.Errorf("nginx takes bodies of %d MiB, and %s sends %d bytes", megabytes, name, largest)
		}
	}
}

// During drain_delay, the proxies that ask for /readyz notice it.
func TestProxiesNoticeADrain(t *testing.T) {
	t.Parallel()
	delay := duration(t, setting(t, "systemd/oncegate.env", `^ONCEGATE_DRAIN_DELAY=(\w+)$`))
	fall, err := strconv.Atoi(setting(t, "haproxy/haproxy.cfg", ` check inter \w+ fall (\d+) `))
	if err != nil {
		t.Fatal(err)
	}
	for path, longest := range map[string]time.Duration{
		"haproxy": time.Duration(fall) * duration(t, setting(t, "haproxy/haproxy.cfg", ` check inter (\w+) `)),
		"caddy":   duration(t, setting(t, "caddy/Caddyfile", `health_interval (\w+)$`)) + duration(t, setting(t, "caddy/Caddyfile", `health_timeout (\w+)$`)),
		"traefik": duration(t, setting(t, "traefik/oncegate.yml", `^\s+interval: (\w+)$`)) + duration(t, setting(t, "traefik/oncegate.yml", `^\s+timeout: (\w+)$`)),
	} {
		if longest <= 0 || longest >= delay {
			t.Errorf("%s notices after %s, and a process drains for %s", path, longest, delay)
		}
	}
}

// Oncegate believes these headers if a trusted proxy sends them.
func TestProxiesRemoveWhatOnlyTheyMayWrite(t *testing.T) {
	t.Parallel()
	for path, pattern := range map[string]string{
		"nginx/oncegate.conf": `proxy_set_header %s\s+"";()`, "caddy/Caddyfile": `header_up -%s$()`,
		"haproxy/haproxy.cfg": `http-request del-header %s$()`, "traefik/oncegate.yml": `^          %s: ""$()`,
	} {
		for _, name := range []string{"Client-Cert", "X-Forwarded-Client-Cert"} {
			setting(t, path, regexp.MustCompile("%s").ReplaceAllLiteralString(pattern, name))
		}
	}
}
