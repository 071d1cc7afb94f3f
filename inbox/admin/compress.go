package admin

import (
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

// compressed compresses the answers of handler for clients that accept it. It leaves alone short answers, streams of events, which
// must not wait, and answers to requests that change something, which may contain a new secret, because the length of a
// compressed answer helps to guess a secret in it.
func compressed(handler http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false)) // its encoders keep megabytes each, and every client knows gzip
	if err != nil {
		panic("admin: " + err.Error()) // the options are the program's
	}
	compress := wrap(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			handler.ServeHTTP(w, r)
			return
		}
		compress.ServeHTTP(w, r)
	})
}
