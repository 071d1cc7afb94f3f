// Package openapi makes the OpenAPI 3.1 description of the API out of the declared operations, and the descriptions of its
// fields out of the comments of the code. [Build] makes it; `go generate` writes it to docs/reference/openapi.json, which the
// API serves. No program that is shipped holds this package.
package openapi

//go:generate go test . -run ^TestTheDescriptionIsUpToDate$ -update
