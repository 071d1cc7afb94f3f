// Command write writes the manual pages into a directory: ./scripts/man DIR calls it.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/man"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY")
		os.Exit(2)
	}
	date := time.Now()
	// Package builders set SOURCE_DATE_EPOCH so that the same source produces the same package
	// (reproducible-builds.org).
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		date = time.Unix(seconds, 0)
	}
	if err := man.Write(os.Args[1], date.UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}
