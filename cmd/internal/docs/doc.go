// Package docs generates the tables of README.md and docs from the code, and tests the
// documentation: the tables are up to date, every command runs, every configuration loads, and no
// link is broken. Run `go generate ./cmd/internal/docs` after you change a flag, a key, a metric or
// a reason.
package docs

//go:generate go test . -run ^TestTablesAreUpToDate$ -update
