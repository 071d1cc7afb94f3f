package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/config"
)

// A source can declare at most eight labels, whose names must be usable in name=value.
func TestLabels(t *testing.T) {
	t.Parallel()
	load := func(labels string) (*config.Config, error) {
		source := "{ provider: stripe, secrets: [env:STRIPE_SECRET], labels: { " + labels + " } }"
		return config.Load(config.Options{File: "x.yml", Content: []byte("sources: { s: " + source + " }"), Environ: environ(), Catalog: loaded(t)})
	}
	cfg, err := load("order: body.order_id, kind: type")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(cfg.Effective())
	if err != nil {
		t.Fatal(err)
	}
	if want := "    labels:\n      kind: event.type\n      order: body.order_id\n"; !strings.Contains(string(text), want) {
		t.Errorf("the configuration in force has no\n%s:\n%s", want, text)
	}
	var nine []string
	for n := range 9 {
		nine = append(nine, fmt.Sprintf("l%d: body.x", n))
	}
	for labels, part := range map[string]string{
		strings.Join(nine, ", "):             "there are 9 labels, and 8 is the most",
		"Order: body.x":                      "the name of a label has at most 63 lower-case letters, digits and _, and begins with a letter",
		`"a=b": body.x`:                      "the name of a label",
		strings.Repeat("x", 64) + ": body.x": "the name of a label",
		"order: body.":                       "column",
	} {
		if _, err := load(labels); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %s", labels, err, part)
		}
	}
}
