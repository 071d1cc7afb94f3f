package access

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
)

// LoginPage is the content of the login page.
type LoginPage struct {
	// Problem says why the browser is not logged in. It is empty if no login was attempted.
	Problem string

	// Unsafe means that nobody can log in at the address that the browser uses. Problem says why.
	Unsafe bool

	// Code is the code of a one-time login link. A form posts it to /login/link in the field code.
	// If Code is empty, the page shows a form that posts a token to /login in the field token.
	Code string

	// OIDC is the address that starts a login at the OpenID Connect provider. It is empty if none
	// is configured.
	OIDC string

	// Return is the path to which the browser returns. The forms post it in the field return. Empty
	// means the start page.
	Return string
}

const loginStyle = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { margin: 10vh auto; padding: 0 1rem; max-width: 24rem }
h1 { font-size: 1.25rem }
form { margin: 1rem 0 }
label, input, button, a.button { display: block; width: 100%; box-sizing: border-box; font: inherit }
input { margin: .25rem 0 .75rem; padding: .5rem }
button, a.button { padding: .5rem; text-align: center; cursor: pointer }
.problem { border-left: .25rem solid #c33; padding-left: .75rem }
`

var loginTemplate = template.Must(template.New("login").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Log in - Oncegate</title><style>` + loginStyle + `</style></head>
<body><main>
<h1>Oncegate</h1>
{{with .Problem}}<p class="problem" role="alert">{{.}}</p>{{end}}
{{if .Unsafe}}{{else if .Code}}
<form method="post" action="/login/link"><input type="hidden" name="code" value="{{.Code}}"><input type="hidden" name="return" value="{{.Return}}">
<button autofocus>Log in with this link</button></form>
<p>The link works once.</p>
{{else}}
{{with .OIDC}}<p><a class="button" href="{{.}}">Log in with your organization's account</a></p>{{end}}
<form method="post" action="/login"><input type="hidden" name="return" value="{{.Return}}">
<label for="token">Token</label><input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required autofocus>
<button>Log in</button></form>
<p>Whoever runs Oncegate makes a token with <code>oncegate tokens create</code>, or a link with <code>oncegate logins link</code>.</p>
{{end}}
</main></body></html>
`))

// loginPolicy allows the plain page only its own style and forms that post to this server.
var loginPolicy = func() string {
	sum := sha256.Sum256([]byte(loginStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// drawLoginPage writes the plain login page.
func drawLoginPage(w http.ResponseWriter, _ *http.Request, status int, page LoginPage) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", loginPolicy)
	w.WriteHeader(status)
	_ = loginTemplate.Execute(w, page) // fails only if the browser has disconnected
}
