package payloadschema

import (
	"bytes"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// parse reads a payload. One with a member twice would be checked by the last and perhaps carried
// out by the first.
func parse(payload []byte) (value any, problem string) {
	if _, ok := jsonspan.ParseTree(payload, nil); !ok {
		return nil, "$: not one JSON document in which each member stands once"
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return nil, "$: not JSON"
	}
	return value, ""
}
