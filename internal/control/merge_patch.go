package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// object checks that a member of a request is a JSON object and returns it in one form, with sorted members, so that equal definitions are
// equal texts. Its error does not quote the content, which may contain secrets.
func object(member string, text json.RawMessage) ([]byte, error) {
	tree, err := parsed(text)
	if _, ok := tree.(map[string]any); err != nil || !ok {
		return nil, invalid("%s: must be one JSON object", member)
	}
	return json.Marshal(tree)
}

func parsed(text []byte) (tree any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return tree, nil
}

// mergePatch applies a JSON merge patch (RFC 7396) to a document and returns the result with sorted members.
func mergePatch(document, patch []byte) ([]byte, error) {
	target, err := parsed(document)
	if err != nil {
		return nil, err
	}
	change, err := parsed(patch)
	if err != nil {
		return nil, err
	}
	return json.Marshal(merged(target, change))
}

// merged is MergePatch of RFC 7396, section 2.
func merged(target, change any) any {
	members, ok := change.(map[string]any)
	if !ok {
		return change
	}
	out, ok := target.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for name, value := range members {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = merged(out[name], value)
		}
	}
	return out
}
