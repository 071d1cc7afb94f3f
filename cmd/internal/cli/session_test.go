package cli_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// session NAME URL SECRET REQUEST: opens a session at the URL with the secret in the variable
// SECRET, and sets the variable NAME to the session's token.
func session(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: session name url secret request")
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, args[1], strings.NewReader(args[3]))
	ts.Check(err)
	request.Header.Set("Authorization", "Bearer "+ts.Getenv(args[2]))
	client := http.Client{Timeout: patience}
	response, err := client.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	var opened struct{ Token, Title, Detail string }
	ts.Check(json.NewDecoder(response.Body).Decode(&opened))
	if response.StatusCode != http.StatusCreated || opened.Token == "" {
		ts.Fatalf("%d %s: %s", response.StatusCode, opened.Title, opened.Detail)
	}
	ts.Setenv(args[0], opened.Token)
}

// revoked PROGRAM ARGS: repeats the program until it reports that its session was revoked.
func revoked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: revoked program [args]")
	}
	poll(ts, "session_revoked", func() bool {
		return ts.Exec(args[0], args[1:]...) != nil && strings.Contains(ts.ReadFile("stdout"), "session_revoked")
	})
}
