// Package openapi makes the OpenAPI 3.1 description of the API from the declared operations, and the descriptions of
// its fields from the comments in the code. [Build] makes it. `go generate` writes it to docs/reference/openapi.json,
// which the API serves. No released program contains this package.
package openapi

//go:generate go test . -run ^TestTheDescriptionIsUpToDate$ -update
