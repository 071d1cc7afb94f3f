package config_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
)

// overridden is a configuration that sets everything that a variable can set to something other
// than the default.
const overridden = `
database: { url: "postgres://file.example/x", list_url: "postgres://lists@file.example/x", schema: filed, gate_connections: 5, work_connections: 15, queue_connections: 9 }
listen: { public: ":7000", admin: "127.0.0.1:7001", trusted_proxies: [192.0.2.0/24],
          connections: 700, connections_per_peer: 70, header_timeout: 7s, idle_timeout: 70s }
console: { url: "https://other.example" }
log: { level: warn, format: text, events: errors }
gate: { queue_events: 70, queue_bytes: 7MiB, deadline: 7s }
buffer: { url: "nats://file.example", replicas: 2, when: unavailable, allow: [192.0.2.0/24] }
bodies: { memory: 70MiB, timeout: 17s, least_rate: 7KiB/s, grace: 7s, small: 7KiB, small_reserve: 7MiB, source_reserve: 1MiB, peer_memory: 27MiB }
work: { workers: 7, lease: 77s, sweep_every: 17s }
drain: 7s
targets: { a: { kind: noop } }
sources: { s: { provider: github, secrets: [env:STRIPE_SECRET], routes: [{ name: r, target: a }] } }
`

// variableCase is one environment variable: a value, other variables that it needs to have an
// effect, and the settings that it changes.
type variableCase struct {
	value   string
	with    []string // also set before
	along   []string // set together with it
	instead string   // the value that the variable replaces, if there must be one
	sets    map[string]string
	key     string // in the reference, if it differs from the setting
}

const (
	quickProvider = "ONCEGATE_SOURCE_PROVIDER=stripe"
	quickSecret   = "ONCEGATE_SOURCE_SECRET=whsec_stripe_value"
	quickForward  = "ONCEGATE_FORWARD_URL=https://app.example/hooks"
	quickAnswer   = "ONCEGATE_FORWARD_IDEMPOTENT=false"
)

// keyringLine is a keyring with one key.
const keyringLine = "1 MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY= active"

// overrides contains all variables that set something.
var overrides = map[string]variableCase{
	"DATABASE_URL":               {value: "postgres://other.example/y", sets: map[string]string{"database.url": "postgres://other.example/y"}},
	"ONCEGATE_DATABASE_URL":      {value: "postgres://other.example/y", with: []string{"DATABASE_URL=postgres://third.example/z"}, sets: map[string]string{"database.url": "postgres://other.example/y"}},
	"ONCEGATE_LIST_DATABASE_URL": {value: "postgres://lists@db/x", sets: map[string]string{"database.listurl": "postgres://lists@db/x"}, key: "database.list_url"},
	"ONCEGATE_SCHEMA":            {value: "given", sets: map[string]string{"database.schema": "given"}},
	"ONCEGATE_CONSOLE_URL":       {value: "https://oncegate.example", sets: map[string]string{"console.url": "https://oncegate.example"}},
	"ONCEGATE_DURABILITY":        {value: "quorum", sets: map[string]string{"database.durability": "quorum"}},
	"ONCEGATE_GATE_CONNECTIONS":  {value: "11", sets: map[string]string{"database.gateconnections": "11"}, key: "database.gate_connections"},
	"ONCEGATE_WORK_CONNECTIONS":  {value: "12", sets: map[string]string{"database.workconnections": "12"}, key: "database.work_connections"},
	"ONCEGATE_QUEUE_CONNECTIONS": {value: "13", sets: map[string]string{"database.queueconnections": "13"}, key: "database.queue_connections"},
	"PORT":                       {value: "9000", sets: map[string]string{"listen.public": ":9000"}},
	"ONCEGATE_PUBLIC":            {value: "127.0.0.1:9001", with: []string{"PORT=9000"}, sets: map[string]string{"listen.public": "127.0.0.1:9001"}},
	"ONCEGATE_ADMIN":             {value: "127.0.0.1:9002", sets: map[string]string{"listen.admin": "127.0.0.1:9002"}},
	"ONCEGATE_TRUSTED_PROXIES": {value: "10.0.0.0/8, fd00::/8", key: "listen.trusted_proxies",
		sets: map[string]string{"listen.trustedproxies[0]": "10.0.0.0/8", "listen.trustedproxies[1]": "fd00::/8"}},
	"LOG_LEVEL":                      {value: "debug", sets: map[string]string{"log.level": "DEBUG"}},
	"ONCEGATE_LOG_FORMAT":            {value: "json", sets: map[string]string{"log.format": "json"}},
	"ONCEGATE_LOG_EVENTS":            {value: "all", sets: map[string]string{"log.events": "all"}},
	"ONCEGATE_METRICS_SOURCES":       {value: "top 7", sets: map[string]string{"metrics.sources": "7"}, key: "metrics.sources"},
	"ONCEGATE_GATE_QUEUE_EVENTS":     {value: "71", sets: map[string]string{"gate.queueevents": "71"}, key: "gate.queue_events"},
	"ONCEGATE_GATE_QUEUE_BYTES":      {value: "8MiB", sets: map[string]string{"gate.queuebytes": "8388608"}, key: "gate.queue_bytes"},
	"ONCEGATE_GATE_DEADLINE":         {value: "3s", sets: map[string]string{"gate.deadline": "3s"}},
	"ONCEGATE_BUFFER_URL":            {value: "tls://a.example,b.example", sets: map[string]string{"buffer.address": "tls://a.example:4222,b.example:4222"}, key: "buffer.url"},
	"ONCEGATE_BUFFER_REPLICAS":       {value: "1", sets: map[string]string{"buffer.replicas": "1"}},
	"ONCEGATE_BUFFER_WHEN":           {value: "always", sets: map[string]string{"buffer.mode": "always"}, key: "buffer.when"},
	"ONCEGATE_BUFFER_ALLOW":          {value: "10.0.0.0/8", sets: map[string]string{"buffer.allow[0]": "10.0.0.0/8"}, key: "buffer.allow"},
	"ONCEGATE_CONNECTIONS":           {value: "800", sets: map[string]string{"listen.connections": "800"}, key: "listen.connections"},
	"ONCEGATE_CONNECTIONS_PER_PEER":  {value: "80", sets: map[string]string{"listen.connectionsperpeer": "80"}, key: "listen.connections_per_peer"},
	"ONCEGATE_HEADER_TIMEOUT":        {value: "8s", sets: map[string]string{"listen.headertimeout": "8s"}, key: "listen.header_timeout"},
	"ONCEGATE_IDLE_TIMEOUT":          {value: "80s", sets: map[string]string{"listen.idletimeout": "1m20s"}, key: "listen.idle_timeout"},
	"ONCEGATE_BODIES_MEMORY":         {value: "80MiB", sets: map[string]string{"bodies.bodybytes": "83886080"}, key: "bodies.memory"},
	"ONCEGATE_BODIES_TIMEOUT":        {value: "18s", sets: map[string]string{"bodies.bodytimeout": "18s"}, key: "bodies.timeout"},
	"ONCEGATE_BODIES_LEAST_RATE":     {value: "off", sets: map[string]string{"bodies.leastbodyrate": "-1"}, key: "bodies.least_rate"},
	"ONCEGATE_BODIES_GRACE":          {value: "8s", sets: map[string]string{"bodies.bodygrace": "8s"}, key: "bodies.grace"},
	"ONCEGATE_BODIES_SMALL":          {value: "8KiB", sets: map[string]string{"bodies.smallbody": "8192"}, key: "bodies.small"},
	"ONCEGATE_BODIES_SMALL_RESERVE":  {value: "8MiB", sets: map[string]string{"bodies.smallbodyreserve": "8388608"}, key: "bodies.small_reserve"},
	"ONCEGATE_BODIES_SOURCE_RESERVE": {value: "off", sets: map[string]string{"bodies.sourcereserve": "-1"}, key: "bodies.source_reserve"},
	"ONCEGATE_BODIES_PEER_MEMORY":    {value: "28MiB", sets: map[string]string{"bodies.peerbodybytes": "29360128"}, key: "bodies.peer_memory"},
	"ONCEGATE_WORKERS":               {value: "8", sets: map[string]string{"work.workers": "8"}},
	"ONCEGATE_LEASE":                 {value: "90s", sets: map[string]string{"work.lease": "1m30s"}},
	"ONCEGATE_SWEEP_EVERY":           {value: "21s", sets: map[string]string{"work.sweepevery": "21s"}, key: "work.sweep_every"},
	"ONCEGATE_DRAIN":                 {value: "9s", sets: map[string]string{"drain": "9s"}},
	"ONCEGATE_DRAIN_DELAY":           {value: "3s", sets: map[string]string{"draindelay": "3s"}, key: "drain_delay"},
	"ONCEGATE_KEYRING":               {value: "env:OTHER_KEYS", with: []string{"OTHER_KEYS=" + keyringLine}, sets: map[string]string{"seal.keyring": "env:OTHER_KEYS"}},
	"ONCEGATE_SOURCE_PROVIDER": {value: "stripe", along: []string{quickSecret}, key: "sources.<name>.provider",
		sets: map[string]string{"sources[1].name": "stripe", "sources[1].provider": "stripe", "sources[1].class": "default", "sources[1].secrets[0]": "env:ONCEGATE_SOURCE_SECRET", "sources[1].keys[0]": "whsec_stripe_value"}},
	"ONCEGATE_SOURCE_SECRET": {value: "whsec_old_value", with: []string{quickProvider}, instead: quickSecret, key: "sources.<name>.provider",
		sets: map[string]string{"sources[1].keys[0]": "whsec_old_value"}},
	"ONCEGATE_SOURCE_PREVIOUS_SECRET": {value: "whsec_old_value", with: []string{quickProvider, quickSecret}, key: "sources.<name>.provider",
		sets: map[string]string{"sources[1].secrets[1]": "env:ONCEGATE_SOURCE_PREVIOUS_SECRET", "sources[1].keys[1]": "whsec_old_value"}},
	"ONCEGATE_SOURCE_NAME": {value: "shop", with: []string{quickProvider, quickSecret}, key: "sources.<name>.provider", sets: map[string]string{"sources[1].name": "shop"}},
	"ONCEGATE_FORWARD_URL": {value: "https://app.example/hooks", with: []string{quickProvider, quickSecret}, along: []string{quickAnswer}, key: "targets.<name>.url",
		sets: map[string]string{
			"targets[1].name": "forward", "targets[1].kind": "forward", "targets[1].url": "https://app.example/hooks", "targets[1].keyheader": "Idempotency-Key",
			"sources[1].routes[0].name": "forward", "sources[1].routes[0].target": "forward", "sources[1].routes[0].types[0]": "*",
		}},
	"ONCEGATE_FORWARD_IDEMPOTENT": {value: "true", with: []string{quickProvider, quickSecret, quickForward}, instead: quickAnswer, key: "targets.<name>.idempotent",
		sets: map[string]string{"targets[1].idempotent": "true"}},
	"ONCEGATE_FORWARD_ALLOW": {value: "10.0.0.0/8,fd00::/8", with: []string{quickProvider, quickSecret, quickForward, quickAnswer}, key: "targets.<name>.allow",
		sets: map[string]string{"targets[1].allow[0]": "10.0.0.0/8", "targets[1].allow[1]": "fd00::/8"}},
	"ONCEGATE_FORWARD_SIGN_SECRET": {value: "sign_value", with: []string{quickProvider, quickSecret, quickForward, quickAnswer}, key: "targets.<name>.url",
		sets: map[string]string{"targets[1].sign[0]": "env:ONCEGATE_FORWARD_SIGN_SECRET", "targets[1].keys[0]": "sign_value"}},
}

// notSettings contains variables that do not correspond to settings.
var notSettings = []string{"ONCEGATE_CONFIG", "ONCEGATE_ROLE", "ONCEGATE_ACTOR", "ONCEGATE_TOKEN", "ONCEGATE_URL"}

// Each variable sets its own setting and nothing else, also with a file that its twin names, and
// the reference lists the variable with that setting.
func TestOverrides(t *testing.T) {
	t.Parallel()
	all := loaded(t)
	known := map[string]bool{}
	for _, variable := range config.Variables() {
		name := variable.Name
		known[name] = true
		if _, ok := overrides[name]; ok == slices.Contains(notSettings, name) {
			t.Errorf("%s is among the overrides of this test: %t", name, ok)
		}
	}
	for name, c := range overrides {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !known[name] {
				t.Fatal("Oncegate reads no such variable")
			}
			after := slices.Concat(environ()[1:], c.with, c.along)
			before := slices.Concat(environ()[1:], c.with)
			if c.instead != "" {
				before = append(before, c.instead)
			}
			file := filepath.Join(t.TempDir(), "value")
			if err := os.WriteFile(file, []byte(c.value+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			plain := settings(t, all, before)
			for _, variable := range []string{name + "=" + c.value, name + "_FILE=" + file} {
				sets := maps.Clone(c.sets)
				if name == "ONCEGATE_KEYRING" && strings.HasPrefix(variable, name+"_FILE") {
					// The file that ONCEGATE_KEYRING_FILE names contains the keys themselves.
					if err := os.WriteFile(file, []byte(keyringLine+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					sets["seal.keyring"] = "env:ONCEGATE_KEYRING"
				}
				got := differences(plain, settings(t, all, append(slices.Clone(after), variable)))
				if !maps.Equal(got, sets) {
					t.Errorf("%s changes\n%s\nwant\n%s", variable, sortedList(got), sortedList(sets))
				}
			}
			key := c.key
			for setting := range c.sets {
				if key == "" {
					key = setting
				}
			}
			if !strings.Contains(key, "<name>") && !slices.Contains(config.VariablesOf(key), name) {
				t.Errorf("the reference names %q for %s and not %s", config.VariablesOf(key), key, name)
			}
		})
	}
}

// An invalid value is reported under the variable's name, and is not quoted because it may be a
// misplaced secret.
func TestOverridesAreChecked(t *testing.T) {
	t.Parallel()
	all := loaded(t)
	anything := []string{"DATABASE_URL", "ONCEGATE_DATABASE_URL", "ONCEGATE_SOURCE_SECRET", "ONCEGATE_SOURCE_PREVIOUS_SECRET", "ONCEGATE_FORWARD_SIGN_SECRET"}
	for name, c := range overrides {
		if slices.Contains(anything, name) {
			continue
		}
		env := slices.Concat(environ()[1:], c.with, c.along, []string{name + "=?literal_secret_value?"})
		_, err := config.Load(config.Options{File: "x.yml", Content: []byte(overridden), Environ: env, Catalog: all})
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") && name != "ONCEGATE_KEYRING" {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "literal_secret_value") && name != "ONCEGATE_SOURCE_PROVIDER" {
			t.Errorf("%s: the value is quoted: %v", name, err)
		}
	}
}

// Variables that are not settings change no setting, and ONCEGATE_CONFIG names the file.
func TestVariablesThatAreNoSettings(t *testing.T) {
	t.Parallel()
	all := loaded(t)
	plain := settings(t, all, environ()[1:])
	for _, variable := range []string{"ONCEGATE_ROLE=receive", "ONCEGATE_ACTOR=ann"} {
		if got := differences(plain, settings(t, all, append(environ()[1:], variable))); len(got) > 0 {
			t.Errorf("%s changes %s", variable, sortedList(got))
		}
	}
	file := filepath.Join(t.TempDir(), "named.yml")
	if err := os.WriteFile(file, []byte(overridden), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Environ: append(environ()[1:], "ONCEGATE_CONFIG="+file), Catalog: all})
	if err != nil || cfg.Origin != file || len(differences(plain, flat(cfg))) > 0 {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// settings returns the settings of the configuration above in an environment.
func settings(t *testing.T, all providers.Map, env []string) map[string]string {
	t.Helper()
	cfg, err := config.Load(config.Options{File: "x.yml", Content: []byte(overridden), Environ: env, Catalog: all})
	if err != nil {
		t.Fatal(err)
	}
	return flat(cfg)
}

func flat(cfg *config.Config) map[string]string {
	out := map[string]string{}
	for name, part := range map[string]any{
		"database": cfg.Database, "seal.keyring": cfg.Seal.Keyring, "listen": cfg.Listen, "console": cfg.Console, "log": cfg.Log, "metrics": cfg.Metrics, "gate": cfg.Gate, "buffer": cfg.Buffer, "bodies": cfg.Bodies, "work": cfg.Work, "drain": cfg.Drain, "draindelay": cfg.DrainDelay,
		"targets": cfg.Targets, "sources": cfg.Sources,
	} {
		flatten(name, reflect.ValueOf(part), out)
	}
	for i, target := range cfg.Targets {
		for k, secret := range target.Keys() {
			out[fmt.Sprintf("targets[%d].keys[%d]", i, k)] = string(secret.Value)
		}
	}
	for i, source := range cfg.Sources {
		for k, secret := range source.Keys() {
			out[fmt.Sprintf("sources[%d].keys[%d]", i, k)] = string(secret.Value)
		}
	}
	return out
}

// flatten records every non-zero setting under its path.
func flatten(path string, v reflect.Value, out map[string]string) {
	if v.IsZero() {
		return
	}
	switch leaf := v.Interface().(type) {
	case *providers.Provider:
		out[path] = leaf.Name()
		return
	case fmt.Stringer:
		out[path] = leaf.String()
		return
	case *config.Target:
		if strings.Contains(path, ".routes[") {
			out[path] = leaf.Name
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		flatten(path, v.Elem(), out)
	case reflect.Slice:
		for i := range v.Len() {
			flatten(fmt.Sprintf("%s[%d]", path, i), v.Index(i), out)
		}
	case reflect.Struct:
		if strings.HasSuffix(path, ".keep") {
			return // the horizons follow from the class and the provider
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				flatten(path+"."+strings.ToLower(f.Name), v.Field(i), out)
			}
		}
	default:
		out[path] = fmt.Sprint(v.Interface())
	}
}

// differences returns the settings with a changed value. A setting that was removed has the value
// "".
func differences(before, after map[string]string) map[string]string {
	out := map[string]string{}
	for path, value := range after {
		if before[path] != value {
			out[path] = value
		}
	}
	for path := range before {
		if _, there := after[path]; !there {
			out[path] = ""
		}
	}
	return out
}

func sortedList(settings map[string]string) string {
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(settings)) {
		lines = append(lines, "  "+path+" = "+settings[path])
	}
	return strings.Join(lines, "\n")
}
