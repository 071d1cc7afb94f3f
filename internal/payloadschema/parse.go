package payloadschema

import (
	"bytes"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// parse parses a payload. It rejects a payload that repeats a member, because the check might see
// the last occurrence and the target the first.
func parse(payload []byte) (value any, problem string) {
	if _, ok := jsonspan.ParseTree(payload, nil); !ok {
		return nil, "$: not one JSON document without repeated members"
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return nil, "$: not JSON"
	}
	return value, ""
}
