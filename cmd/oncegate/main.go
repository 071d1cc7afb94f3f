// Oncegate is a webhook inbox: it verifies deliveries of providers, records each event once in
// PostgreSQL and runs the event's effects. See `oncegate help`.
package main

import (
	"os"

	"github.com/oncegate/oncegate/cmd/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
