// Package reference holds those files of the reference that programs serve.
package reference

import _ "embed"

//go:embed openapi.json
var openAPI []byte

// OpenAPI gives the description of the API (OpenAPI 3.1, as JSON). Do not change it.
func OpenAPI() []byte { return openAPI }
