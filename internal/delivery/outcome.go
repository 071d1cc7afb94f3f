package delivery

import (
	"encoding/json"
	"net/http"
)

// Outcome returns the outcome that an answer to a delivery names, such as recorded or duplicate, and Oncegate's id of
// the event. Some providers want another answer than ours, which names neither: then the outcome is acknowledged, try
// later or refused, by its status.
func Outcome(status int, header http.Header, body []byte) (outcome, event string) {
	var answer struct{ Event, Status string }
	_ = json.Unmarshal(body, &answer) // many answers are not JSON
	event = header.Get("Oncegate-Event")
	if event == "" {
		event = answer.Event
	}
	switch {
	case answer.Status != "":
		return answer.Status, event
	case status >= 200 && status < 300:
		return "acknowledged", event
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		return "try later", event
	}
	return "refused", event
}
