// Oncegate-postgres gives a checkout of Oncegate a PostgreSQL to work with. It is a tool for development; the scripts
// call it, and it is no part of the product.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "oncegate-postgres: %v\n", err)
		os.Exit(1) //nolint:gocritic // stop only unhooks the signals
	}
}
