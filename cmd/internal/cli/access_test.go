package cli_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// output NAME: sets the variable NAME to the stdout of the last program, without the trailing
// newline.
func output(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: output name")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// asks STATUS URL TOKEN: waits until a request with the token is answered with the status. A
// process notices within seconds that a token was revoked.
func asks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: asks status url token")
	}
	got := 0
	poll(ts, args[1]+" with the status "+args[0], func() bool {
		r, err := http.NewRequest(http.MethodGet, args[1], nil)
		ts.Check(err)
		r.Header.Set("Authorization", "Bearer "+args[2])
		client := http.Client{Timeout: 10 * time.Second}
		response, err := client.Do(r)
		ts.Check(err)
		ts.Check(response.Body.Close())
		got = response.StatusCode
		return strconv.Itoa(got) == args[0]
	})
}

// browse LINK: opens a login link in a browser and presses its button. With !, the login must fail.
func browse(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] browse link")
	}
	client := http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	page, err := client.Get(args[0])
	ts.Check(err)
	ts.Check(page.Body.Close())
	at, err := url.Parse(args[0])
	ts.Check(err)
	r, err := http.NewRequest(http.MethodPost, at.Scheme+"://"+at.Host+"/login/link", strings.NewReader(url.Values{"code": {at.Query().Get("link")}}.Encode()))
	ts.Check(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	answer, err := client.Do(r)
	ts.Check(err)
	ts.Check(answer.Body.Close())
	if loggedIn := answer.StatusCode == http.StatusSeeOther && len(answer.Cookies()) == 1; page.StatusCode != http.StatusOK || loggedIn == neg {
		ts.Fatalf("the link is answered %d, its button %d with the cookies %v", page.StatusCode, answer.StatusCode, answer.Cookies())
	}
}
