// Oncegate-postgres provides a PostgreSQL server for working on a checkout of Oncegate. It is a
// development tool that the scripts call, and not part of the product.
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
		os.Exit(1) //nolint:gocritic // stop only unregisters the signals
	}
}
