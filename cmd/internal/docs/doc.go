// Package docs makes the tables of README.md and docs from the code, and tests what they say:
// the tables are current, every command runs, every configuration loads, and every link leads
// somewhere. Run `go generate ./cmd/internal/docs` after a change of a flag, a key, a metric or
// a reason.
package docs

//go:generate go test . -run ^TestTablesAreUpToDate$ -update
