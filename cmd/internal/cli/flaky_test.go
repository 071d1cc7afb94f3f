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

// flaky NAME URL FAULT...: sets the variable NAME to the address of a proxy for the server at URL.
// Its first requests meet the faults in order. For a status, it answers at once with Retry-After:
// 0. For "lost", it forwards the request and closes the connection instead of answering. For
// "elsewhere", it removes the header Prefer from the request, and answers with a Location on
// another server. It forwards all later requests unchanged.
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
