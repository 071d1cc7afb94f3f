package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// githubEvent derives the event type from the keys that only its payload has.
func githubEvent(body []byte) (string, bool) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(body, &keys) != nil {
		return "", false
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := keys[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("ref", "before", "after", "commits"):
		return "push", true
	case has("zen", "hook_id"):
		return "ping", true
	case has("action", "issue", "comment"):
		return "issue_comment", true
	case has("action", "pull_request", "number"):
		return "pull_request", true
	case has("action", "issue"):
		return "issues", true
	case has("action", "release"):
		return "release", true
	}
	return "", false
}

// lookup returns the string or number at a dotted path.
func lookup(body []byte, path string) (string, bool) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return "", false
	}
	for key := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return "", false
		}
		value = object[key]
	}
	switch value := value.(type) {
	case string:
		return value, value != ""
	case json.Number:
		return value.String(), true
	}
	return "", false
}

// set writes a string at a dotted path and creates the missing objects. It keeps the text of the
// other keys; their order may change.
func set(body []byte, path []string, value string) ([]byte, error) {
	object := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, &object); err != nil {
			return nil, fmt.Errorf("not a JSON object")
		}
	}
	var inner []byte
	var err error
	if len(path) == 1 {
		inner, err = json.Marshal(value)
	} else {
		inner, err = set(object[path[0]], path[1:], value)
	}
	if err != nil {
		return nil, err
	}
	object[path[0]] = inner
	return json.Marshal(object)
}
