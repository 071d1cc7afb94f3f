package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// flaky NAME URL FAULT...: the variable NAME is the address of a server in front of the one at URL.
// Its first requests meet the faults in turn: a status is answered at once, with Retry-After: 0,
// and "lost" passes the request on and closes the connection instead of answering. "elsewhere"
// passes the request on without its wish to wait, and answers with a Location on another server.
// All later requests are passed on.
func flaky(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: flaky name url fault...")
	}
	upstream, faults := args[1], args[2:]
	var served atomic.Int64
	transport := &http.Transport{ResponseHeaderTimeout: patience}
	ts.Defer(transport.CloseIdleConnections)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	ts.Defer(stranger.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := ""
		if n := int(served.Add(1)); n <= len(faults) {
			fault = faults[n-1]
		}
		var status int
		if n, _ := fmt.Sscanf(fault, "%d", &status); n == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
			return
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, upstream+r.URL.Path, r.Body)
		if err != nil {
			panic(err)
		}
		request.Header = r.Header.Clone()
		if fault == "elsewhere" {
			request.Header.Del("Prefer")
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			panic(err)
		}
		defer response.Body.Close()
		if fault == "lost" {
			panic(http.ErrAbortHandler)
		}
		for name, values := range response.Header {
			w.Header()[name] = slices.Clone(values)
		}
		if fault == "elsewhere" {
			w.Header().Set("Location", stranger.URL+"/in/agents/"+strings.TrimSpace(response.Header.Get("Oncegate-Event")))
		}
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL)
}
