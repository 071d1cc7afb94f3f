package listingtest

import (
	"cmp"
	"net/http"
	"time"
)

// paypalIssued is the token that the server issues.
const paypalIssued = "A21AA_issued_token"

func paypal() Sender {
	return Sender{
		Provider: "paypal", Settings: map[string]string{"webhook_id": "8PT597110X687430LKGECATA"}, Secretless: true,
		Credential: "client:" + Key, Other: "client:" + OtherKey,
		accepts: func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+paypalIssued },
		serve:   paypalEvents,
	}
}

// paypalToken issues a token: https://developer.paypal.com/api/rest/authentication/
func (a *API) paypalToken(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens++
	user, password, _ := r.BasicAuth()
	switch {
	case user != "client" || password != Key:
		w.WriteHeader(http.StatusUnauthorized)
		answer(w, object{"error": "invalid_client", "error_description": "Client Authentication failed: " + password})
	case r.Method != http.MethodPost || r.PostFormValue("grant_type") != "client_credentials":
		w.WriteHeader(http.StatusBadRequest)
		answer(w, object{"error": "unsupported_grant_type"})
	default:
		life := cmp.Or(a.TokenLife, 9*time.Hour)
		answer(w, object{"scope": "https://uri.paypal.com/services/applications/webhooks", "access_token": paypalIssued, "token_type": "Bearer", "app_id": "APP-80W284485P519543T", "expires_in": int(life.Seconds()), "nonce": "n"})
	}
}

func paypalEvents(a *API, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if refused(w, r.Method == http.MethodGet && r.URL.Path == "/v1/notifications/webhooks-events" && q.Has("start_time") && q.Has("end_time")) {
		return
	}
	page, more := a.page(a.events, rfc3339(q.Get("start_time")), rfc3339(q.Get("end_time")), q.Get("index_id"))
	link := func(rel string) object {
		return object{"href": "http://" + r.Host + r.URL.Path + "?" + q.Encode(), "rel": rel, "method": "GET"}
	}
	links := []object{link("self")}
	if more {
		q.Set("move_to", "next")
		q.Set("index_id", page[len(page)-1].ID)
		links = append(links, link("next"))
	}
	answer(w, object{"events": each(page, func(e Event) any {
		at := e.Created.UTC().Format("2006-01-02T15:04:05.000Z")
		return object{"id": e.ID, "create_time": at, "resource_type": "capture", "event_type": "PAYMENT.CAPTURE.COMPLETED", "summary": "Payment completed", "resource": object{"id": "c_1"}, "links": []object{}}
	}), "count": len(page), "links": links})
}
