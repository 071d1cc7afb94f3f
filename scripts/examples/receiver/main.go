// Command receiver is an example of a target that Oncegate forwards events to. It
// verifies each request, does its work once for each webhook-id, and answers with a
// status that says what became of it. receiver.mjs is the same in JavaScript.
//
//	WEBHOOK_SECRET=whsec_... go run ./scripts/examples/receiver
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tolerance is how far the time of a signature may be from ours. A request that was
// overheard cannot be sent again later than that.
const tolerance = 5 * time.Minute

// maxBody is the largest body that is read.
const maxBody = 10 << 20

func main() {
	address := os.Getenv("ADDRESS")
	if address == "" {
		address = "127.0.0.1:8099"
	}
	key, err := signingKey(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(2)
	}
	listener, err := net.Listen("tcp", address) //nolint:noctx // binds at once or fails
	if err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: &receiver{key: key, done: map[string]string{}}, ReadTimeout: 30 * time.Second}
	if err := server.Serve(listener); err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

// signingKey reads the secret that the target's `sign` names: what follows "whsec_" is
// base64, anything else is the key itself.
func signingKey(secret string) ([]byte, error) {
	encoded, prefixed := strings.CutPrefix(secret, "whsec_")
	if secret == "" || prefixed && encoded == "" {
		return nil, fmt.Errorf("WEBHOOK_SECRET is empty; set it to the secret that Oncegate signs with")
	}
	if !prefixed {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("WEBHOOK_SECRET: what follows whsec_ is not base64")
	}
	return key, nil
}

type receiver struct {
	key []byte

	// mu guards done, which has the reply to each webhook-id. A real target keeps it in
	// its database, and writes it in the transaction that does the work: then a crash
	// cannot come between the two, and two processes cannot both do it.
	mu   sync.Mutex
	done map[string]string
}

// ServeHTTP implements [http.Handler].
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	// The signature is over the bytes as they came; parsed and written again they may
	// be others.
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		http.Error(w, "the body did not arrive whole", http.StatusBadRequest)
		return
	}
	id := req.Header.Get("Webhook-Id")
	if !genuine(r.key, id, req.Header.Get("Webhook-Timestamp"), req.Header.Get("Webhook-Signature"), body, time.Now()) {
		http.Error(w, "the signature does not match", http.StatusUnauthorized)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if reply, known := r.done[id]; known {
		// Another attempt of what was done: the same answer, and a word that it is old.
		w.Header().Set("Idempotent-Replayed", "true")
		fmt.Fprintln(w, reply)
		return
	}
	// The work. An error that nothing was done for would be a 429 (try again), one that
	// no attempt can mend a 422 (give up). Any 5xx says that nobody knows.
	fmt.Printf("did %s %s under %s\n", req.Header.Get("Oncegate-Event-Id"), req.Header.Get("Oncegate-Event-Type"), id)
	r.done[id] = "done"
	fmt.Fprintln(w, "done")
}

// genuine reports whether a request was signed with the key, not long ago (Standard
// Webhooks). There may be several signatures, while a secret is being replaced.
func genuine(key []byte, id, timestamp, signatures string, body []byte, now time.Time) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || id == "" || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	want := mac.Sum(nil)
	for signature := range strings.FieldsSeq(signatures) {
		encoded, ours := strings.CutPrefix(signature, "v1,")
		got, err := base64.StdEncoding.DecodeString(encoded)
		if ours && err == nil && hmac.Equal(got, want) {
			return true
		}
	}
	return false
}
