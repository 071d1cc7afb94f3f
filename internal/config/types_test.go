package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

// BenchmarkTypes reads 5,000 sources with types, one of which their sender does not have, and as many without types.
func BenchmarkTypes(b *testing.B) {
	for name, types := range map[string]string{"with": `, types: [invoice.paid, "customer.*", invoice.payed]`, "without": ""} {
		b.Run(name, func(b *testing.B) {
			var s strings.Builder
			s.WriteString("targets: { billing: { kind: forward, url: \"https://a.example/\", idempotent: true } }\nsources:\n")
			for i := range 5000 {
				fmt.Fprintf(&s, "  s%d: { provider: stripe, secrets: [env:STRIPE_SECRET], routes: [{ name: a, target: billing%s }] }\n", i, types)
			}
			for b.Loop() {
				if _, err := config.Load(config.Options{File: "x.yml", Content: []byte(s.String()), Environ: environ(), Catalog: new(catalog.Lazy)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
