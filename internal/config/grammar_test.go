package config_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
)

// spellings lists ways to write a value of a kind, and their meanings; nil means that the reader
// rejects it.
var spellings = map[string]map[string]any{
	"duration": {
		"90d": 90 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "1.5m": 90 * time.Second, "1h30m": 90 * time.Minute, "1h0m0s": time.Hour,
		"500ms": 500 * time.Millisecond, "'10s'": 10 * time.Second, `"10s"`: 10 * time.Second, "1d12h": 36 * time.Hour, "0.5s": 500 * time.Millisecond,
		"": nil, "~": nil, "null": nil, "10": nil, "0s": nil, "0": nil, "-1s": nil, "1 h": nil, "soon": nil, ".5s": nil, "10us": nil, "300y": nil,
		"99999999w": nil, "[10s]": nil, "{ a: 10s }": nil, "&a 10s": nil, "*a": nil, "!!str 10s": nil, "true": nil,
	},
	"size": {
		"512": int64(512), "512B": int64(512), "64KiB": int64(64 << 10), "64 KiB": int64(64 << 10), "1MiB": int64(1 << 20), "2MB": int64(2e6), "10kB": int64(1e4), "'1MiB'": int64(1 << 20),
		"": nil, "~": nil, "0": nil, "0B": nil, "-1": nil, "1.5MiB": nil, "lots": nil, "0x10": nil, "1_000": nil, "[1MiB]": nil, "{ a: 1 }": nil, "&a 1MiB": nil, "!!int 1": nil,
	},
	"bool": {
		"true": true, "false": false, "'true'": true, `"false"`: false,
		"": nil, "~": nil, "yes": nil, "no": nil, "on": nil, "True": nil, "TRUE": nil, "1": nil, "0": nil, "[true]": nil, "{ a: true }": nil, "!!bool true": nil, "&a true": nil,
	},
	"integer": {
		"201": 201, "'201'": 201, "": nil, "~": nil, "0": nil, "-1": nil, "1.0": nil, "2e2": nil, "0xC9": nil, "201.5": nil, "many": nil, "[201]": nil, "{ a: 1 }": nil,
		"99999999999999999999": nil, "true": nil, "!!int 201": nil, "&a 201": nil,
	},
	"text": {
		"plain": "plain", "'single'": "single", `"double\tquoted"`: "double\tquoted", "7": "7", "1.50": "1.50", "0x10": "0x10", "true": "true", "False": "False", ".inf": ".inf", ".nan": ".nan",
		"|-\n      block": "block", "'null'": "null", "2026-01-02": "2026-01-02", "a#b": "a#b",
		"": nil, "~": nil, "null": nil, "[a]": nil, "{ a: b }": nil, "&a b": nil, "*a": nil, "!!str a": nil, "!own a": nil, "<<": "<<",
	},
	"list": {
		"[a, b]": []string{"a", "b"}, "a": []string{"a"}, "[a]": []string{"a"}, "'a'": []string{"a"}, "[1, true]": []string{"1", "true"}, "\n      - a\n      - b": []string{"a", "b"},
		"[a, ~]": nil, "[[a]]": nil, "{ a: b }": nil, "[{ a: b }]": nil, "&a [a]": nil, "[&a a]": nil, "[*a]": nil, "[!!str a]": nil,
		"\n      - a\n      -": nil,
	},
	"mapping": {
		"{ A: b }": map[string]string{"A": "b"}, "\n          A: b\n          C: 7": map[string]string{"A": "b", "C": "7"}, "{ 'A': 'b' }": map[string]string{"A": "b"}, "{ 1: b }": map[string]string{"1": "b"},
		"a": nil, "[a]": nil, "{ A: b, A: c }": nil, "\n          A: b\n          'A': c": nil, "{ A: }": nil, "{ A: [b] }": nil, "{ <<: { A: b } }": nil, "{ ? [A] : b }": nil, "{ ~: b }": nil,
		"&a { A: b }": nil, "{ A: &a b }": nil, "{ A: *a }": nil, "{ &a A: b }": nil, "!!map { A: b }": nil, "{ !!str A: b }": nil, "{ A: b, C: { D: e } }": nil,
	},
}

// The file has one grammar: a spelling has the same meaning, or is rejected with the same message
// at the same position, in a section of the configuration and in a custom provider.
func TestOneGrammar(t *testing.T) {
	t.Parallel()
	catalog := loaded(t)
	load := func(content string) (*config.Config, error) {
		return config.Load(config.Options{File: "x.yml", Content: []byte(content), Environ: environ(), Catalog: catalog})
	}
	const forward = "targets:\n  t:\n    kind: forward\n    idempotent: true\n    url: https://x.example/\n    "
	const source = "\nsources:\n  s:\n    provider: stripe\n    secrets: env:STRIPE_SECRET\n    "
	const custom = "providers:\n  p:\n    extends: hmac\n    "
	spec := func(c *config.Config) *providers.Spec { return c.Providers["p"].Spec() }
	for kind, at := range map[string]struct {
		section, provider string // the document before the value
		fromSection       func(*config.Config) any
		fromProvider      func(*providers.Spec) any
	}{
		"duration": {
			"work:\n    lease: ", custom + "windows:\n      ack_within: ",
			func(c *config.Config) any { return c.Work.Lease }, func(s *providers.Spec) any { return time.Duration(s.Windows.AckWithin) },
		},
		"size": {
			"gate:\n    queue_bytes: ", custom + "request:\n      max_body: ",
			func(c *config.Config) any { return c.Gate.QueueBytes }, func(s *providers.Spec) any { return int64(s.Request.MaxBody) },
		},
		"bool": {
			forward + "keep_reply: ", custom + "verify:\n      signature:\n        prefix_optional: ",
			func(c *config.Config) any { return c.Targets[0].KeepReply }, func(s *providers.Spec) any { return s.Verify.Signature.PrefixOptional },
		},
		"integer": {
			"work:\n    workers: ", custom + "ack:\n      status: ",
			func(c *config.Config) any { return c.Work.Workers }, func(s *providers.Spec) any { return s.Ack.Status },
		},
		"text": {
			"targets:\n  t:\n    kind: mail\n    smtp: smtp://mail.example\n    from: a@b.example\n    templates: ", custom + "title: ",
			func(c *config.Config) any { return c.Targets[0].Templates }, func(s *providers.Spec) any { return s.Title },
		},
		"list": {
			source[1:] + "redact: ", custom + "volatile: ",
			func(c *config.Config) any { return c.Sources[0].Redact }, func(s *providers.Spec) any { return s.Volatile },
		},
		"mapping": {
			forward + "headers: ", custom + "ack:\n      headers: ",
			func(c *config.Config) any { return c.Targets[0].Headers }, func(s *providers.Spec) any { return s.Ack.Headers },
		},
	} {
		for text, want := range spellings[kind] {
			t.Run(kind+"/"+text, func(t *testing.T) {
				t.Parallel()
				after := "\n"
				if kind != "list" {
					after = source + "routes: []\n"
				}
				section, sectionErr := load(at.section + text + after)
				provider, providerErr := load(at.provider + text + source + "routes: []\n")
				if want == nil {
					told := verdict(t, at.section, text, sectionErr)
					if same := verdict(t, at.provider, text, providerErr); told != same || told == "" {
						t.Errorf("the section says\n%s\nthe provider\n%s", told, same)
					}
					return
				}
				if sectionErr != nil || providerErr != nil {
					t.Fatalf("the section says\n%v\nthe provider\n%v", sectionErr, providerErr)
				}
				if got := at.fromSection(section); !reflect.DeepEqual(got, want) {
					t.Errorf("the section has %v, want %v", got, want)
				}
				if got := at.fromProvider(spec(provider)); !reflect.DeepEqual(got, want) {
					t.Errorf("the provider has %v, want %v", got, want)
				}
			})
		}
	}
}

// verdict returns the only problem of a value, without the path. Its position is relative to the
// value.
func verdict(t *testing.T, before, text string, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	problems, ok := err.(config.Problems) //nolint:errorlint // nothing wraps it
	if !ok || len(problems) != 1 {
		t.Errorf("%s%s: want one complaint, got\n%v", before, text, err)
		return ""
	}
	p := problems[0]
	lines := strings.Count(before, "\n")
	column := p.Column
	if p.Line-1 == lines {
		column = max(column-(len(before)-strings.LastIndexByte(before, '\n')-1), 0) // 0 is the position of the key
	}
	said, _, _ := strings.Cut(p.Text, ", first on line")
	return fmt.Sprintf("%d:%d: %s", p.Line-1-lines, column, said)
}
