package config_test

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs"
)

// sections contains the mappings of the configuration, each with a file in which the mapping has
// one unknown key. The error lists all known keys.
func sections() map[string]string {
	const (
		target = `targets: { t: { kind: noop } }` + "\n"
		source = `sources: { s: { provider: stripe, secrets: [env:STRIPE_SECRET], `
	)
	out := map[string]string{
		"configuration": `nonsense: 1`,
		"classes":       `classes: { default: { nonsense: 1 } }`,
		"retry":         `targets: { t: { kind: noop, retry: { nonsense: 1 } } }`,
		"breaker":       `targets: { t: { kind: noop, breaker: { nonsense: 1 } } }`,
		"dkim":          `targets: { t: { kind: mail, smtp: "smtp://a.example", from: a@b.example, dkim: { nonsense: 1 } } }`,
		"dry_run":       `targets: { t: { kind: forward, idempotent: false, url: "https://a.example", dry_run: { nonsense: 1 } } }`,
		"probe":         `targets: { t: { kind: forward, idempotent: false, url: "https://a.example", probe: { nonsense: 1 } } }`,
		"source":        source + `nonsense: 1 } }`,
		"credential":    `sources: { s: { provider: operation, credentials: { c: { nonsense: 1 } } } }`,
		"tenant":        `tenants: { t: { nonsense: 1 } }`,
		"console":       `console: { nonsense: 1 }`,
		"oidc":          `console: { oidc: { nonsense: 1 } }`,
		"role":          `console: { oidc: { roles: { r: { nonsense: 1 } } } }`,
		"operation":     `sources: { s: { provider: operation, secrets: [env:STRIPE_SECRET], operation: { nonsense: 1 } } }`,
		"from":          `sources: { s: { from: { nonsense: 1 } } }`,
		"reconcile":     source + `reconcile: { nonsense: 1 } } }`,
		"sessions":      `sources: { s: { provider: operation, secrets: [env:STRIPE_SECRET], sessions: { nonsense: 1 } } }`,
		"declared":      `sources: { s: { provider: operation, secrets: [env:STRIPE_SECRET], operations: { o: { nonsense: 1 } } } }`,
		"repeats":       `sources: { s: { provider: operation, secrets: [env:STRIPE_SECRET], operation: { repeats: { nonsense: 1 } } } }`,
		"route":         target + source + `routes: [{ name: r, target: t, nonsense: 1 }] } }`,
		"fetch":         target + source + `routes: [{ name: r, target: t, fetch: { nonsense: 1 } }] } }`,
		"order":         target + source + `routes: [{ name: r, target: t, order: { nonsense: 1 } }] } }`,
		"key":           target + source + `routes: [{ name: r, target: t, key: { nonsense: 1 } }] } }`,
		"mail":          target + source + `routes: [{ name: r, target: t, mail: { nonsense: 1 } }] } }`,
		"secret":        `sources: { s: { provider: stripe, secrets: [{ nonsense: 1 }] } }`,
	}
	for _, name := range []string{"database", "seal", "suppressions", "listen", "log", "metrics", "gate", "buffer", "archive", "bodies", "work", "notifications"} {
		out[name] = name + `: { nonsense: 1 }`
	}
	for _, kind := range []string{"forward", "publish", "sql", "mail", "suppress", "noop"} {
		out["target "+kind] = `targets: { t: { kind: ` + kind + `, nonsense: 1 } }`
	}
	return out
}

var knownKeys = regexp.MustCompile(`unknown key "nonsense"; known are (.*)`)

// existing returns the keys of a section, as listed by the reader itself.
func existing(t *testing.T, name, file string) map[string]bool {
	t.Helper()
	_, err := config.Load(config.Options{File: "x.yml", Content: []byte(file), Environ: environ(), Catalog: loaded(t)})
	if err == nil {
		t.Fatalf("%s: a key that does not exist was taken", name)
	}
	found := knownKeys.FindStringSubmatch(err.Error())
	if found == nil {
		t.Fatalf("%s: no list of keys in %v", name, err)
	}
	out := map[string]bool{}
	for key := range strings.SplitSeq(found[1], ", ") {
		out[key] = true
	}
	return out
}

// The reference documents exactly the keys that the reader accepts.
func TestReferenceIsComplete(t *testing.T) {
	t.Parallel()
	documented := map[string]map[string]bool{}
	for _, section := range config.Sections() {
		keys := map[string]bool{}
		for _, key := range section.Keys {
			if keys[key.Name] {
				t.Errorf("section %q: %s stands in it twice", section.Name, key.Name)
			}
			keys[key.Name] = true
			if key.Text == "" || !strings.HasSuffix(key.Text, ".") {
				t.Errorf("section %q: the text of %s is no sentence: %q", section.Name, key.Name, key.Text)
			}
		}
		if documented[section.Name] != nil {
			t.Errorf("there are two sections %q", section.Name)
		}
		documented[section.Name] = keys
	}
	for name, file := range sections() {
		compare(t, fmt.Sprintf("section %q", name), existing(t, name, file), documented[name])
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("the reference documents a section %q that does not exist", name)
	}
}

// A section need not repeat the keys of the section that it is like, and these two together are all of its keys.
func TestKeysOfEveryTargetAreDocumentedOnce(t *testing.T) {
	t.Parallel()
	sections := config.Sections()
	common := map[string]bool{"kind": true, "timeout": true, "retry": true, "concurrency": true, "rate": true, "breaker": true}
	kinds := 0
	for _, section := range sections {
		own := map[string]bool{}
		for _, key := range section.Own(sections) {
			own[key.Name] = true
		}
		if !strings.HasPrefix(section.Name, "target ") || section.Name == "target noop" {
			if len(own) != len(section.Keys) {
				t.Errorf("section %q documents %d of its %d keys", section.Name, len(own), len(section.Keys))
			}
			continue
		}
		kinds++
		for _, key := range section.Keys {
			if own[key.Name] == common[key.Name] {
				t.Errorf("section %q: key %s is its own: %t", section.Name, key.Name, own[key.Name])
			}
		}
	}
	if kinds != 5 {
		t.Errorf("%d kinds", kinds)
	}
}

// Every variable that sets a key is listed with the key, because its path is the path of a key.
func TestVariablesSetKeys(t *testing.T) {
	t.Parallel()
	paths := map[string]bool{}
	for _, section := range config.Sections() {
		for _, key := range section.Keys {
			paths[section.Prefix+key.Name] = true
		}
	}
	path := regexp.MustCompile(`^([a-z]+\.[a-z_]+|drain)(?:, |$)`)
	shown := 0
	for _, variable := range config.Variables() {
		if m := path.FindStringSubmatch(variable.Sets); m != nil {
			shown++
			if !paths[m[1]] {
				t.Errorf("%s sets %s, which the reference does not have", variable.Name, m[1])
			}
		}
	}
	if shown < 30 {
		t.Errorf("only %d variables set a key", shown)
	}
	if got := config.VariablesOf("database.url"); !slices.Equal(got, []string{"ONCEGATE_DATABASE_URL", "DATABASE_URL"}) {
		t.Errorf("database.url is set by %v", got)
	}
}

// The documented defaults are the effective defaults: a file that sets them explicitly does not
// change the configuration of the process.
func TestDocumentedDefaultsAreThoseThatHold(t *testing.T) {
	t.Parallel()
	file, given := "", 0
	for _, section := range config.Sections() {
		if path := strings.TrimSuffix(section.Prefix, "."); path == section.Name {
			body := ""
			for _, key := range section.Keys {
				if m := literal.FindStringSubmatch(key.Default); m != nil {
					body += fmt.Sprintf("  %s: %q\n", key.Name, m[1])
					given++
				}
			}
			if body != "" && !slices.Contains([]string{"retry", "breaker", "probe", "dry_run", "dkim", "order", "key", "mail", "fetch", "buffer"}, section.Name) {
				file += section.Name + ":\n" + body
			}
		}
	}
	const source = "sources: { s: { provider: stripe, secrets: [env:STRIPE_SECRET] } }\n"
	plain, err := config.Load(config.Options{File: "x.yml", Content: []byte(source), Environ: environ(), Catalog: loaded(t)})
	if err != nil {
		t.Fatal(err)
	}
	written, err := config.Load(config.Options{File: "x.yml", Content: []byte(file + source), Environ: environ(), Catalog: loaded(t)})
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	if given < 20 {
		t.Fatalf("only %d defaults are given:\n%s", given, file)
	}
	if !reflect.DeepEqual(plain.Bodies.Resolved(1), written.Bodies.Resolved(1)) {
		t.Errorf("bodies\n%+v by default and\n%+v as documented", plain.Bodies.Resolved(1), written.Bodies.Resolved(1))
	}
	for name, pair := range map[string][2]any{
		"database": {plain.Database, written.Database}, "log": {plain.Log, written.Log}, "drain": {plain.Drain, written.Drain}, "drain_delay": {plain.DrainDelay, written.DrainDelay},
		"listen.public": {plain.Listen.Public, written.Listen.Public}, "listen.admin": {plain.Listen.Admin, written.Listen.Admin},
		"header_timeout": {cmp.Or(plain.Listen.HeaderTimeout, 5*time.Second), written.Listen.HeaderTimeout},
		"idle_timeout":   {cmp.Or(plain.Listen.IdleTimeout, 75*time.Second), written.Listen.IdleTimeout},
		"workers":        {cmp.Or(plain.Work.Workers, jobs.DefaultMaxWorkers), written.Work.Workers},
		"lease":          {cmp.Or(plain.Work.Lease, inbox.DefaultLease), written.Work.Lease},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %+v by default and %+v as documented", name, pair[0], pair[1])
		}
	}
}

var literal = regexp.MustCompile("^`([^`]+)`$")

func compare(t *testing.T, what string, exist, said map[string]bool) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(exist)) {
		if !said[key] {
			t.Errorf("%s: %s exists and is not in the reference", what, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if !exist[key] {
			t.Errorf("%s: the reference names %s, which does not exist", what, key)
		}
	}
}
