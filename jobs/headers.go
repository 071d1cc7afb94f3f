package jobs

import (
	"encoding/json"
	"net/http"
)

// HeaderTexts reads the headers kept of a delivery: an object of strings or of
// arrays of strings, of which the first counts.
func HeaderTexts(headers []byte) map[string]string {
	var doc map[string]any
	if json.Unmarshal(headers, &doc) != nil {
		return nil
	}
	out := make(map[string]string, len(doc))
	for name, value := range doc {
		switch v := value.(type) {
		case string:
			out[name] = v
		case []any:
			if len(v) > 0 {
				out[name], _ = v[0].(string)
			}
		}
	}
	return out
}

// headersOf reads the headers kept of a delivery, by their canonical names.
func headersOf(kept []byte) http.Header {
	var h http.Header
	if json.Unmarshal(kept, &h) == nil {
		return h // as the receiver writes them
	}
	h = http.Header{}
	for name, value := range HeaderTexts(kept) {
		h.Set(name, value)
	}
	return h
}
