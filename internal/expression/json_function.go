package expression

import (
	"encoding/json"
	"io"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// jsonFunction is json(text), which parses the JSON in a text. Some senders put a document into a
// member as text, such as Amazon SNS the message from SES. Numbers are read as in the body.
func jsonFunction() cel.EnvOption {
	return cel.Function("json", cel.Overload("json_string", []*cel.Type{cel.StringType}, cel.DynType, cel.UnaryBinding(func(text ref.Val) ref.Val {
		s, ok := text.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(text)
		}
		value, ok := decodeJSON(strings.NewReader(string(s)))
		if !ok {
			return types.NewErr("no such overload: the text is not JSON") // [Program.eval] recognises the error by its first words
		}
		return types.DefaultTypeAdapter.NativeToValue(value)
	})))
}

// decodeJSON parses one JSON value. It returns false if anything follows the value.
func decodeJSON(in io.Reader) (value any, ok bool) {
	decoder := json.NewDecoder(in)
	decoder.UseNumber() // a number keeps all its digits
	if decoder.Decode(&value) != nil {
		return nil, false
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, false
	}
	return numbers(value), true
}
