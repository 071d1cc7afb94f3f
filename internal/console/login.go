package console

import (
	"bytes"
	"net/http"
)

// LoginPage is the content of the login page. Package access sets its fields.
type LoginPage struct {
	// Problem says why the browser is not logged in. It is empty if no login was tried.
	Problem string

	// Unsafe says that logging in is not possible at the address that the browser uses.
	Unsafe bool

	// Code is the code of a link that logs in once. Empty shows the form for a token.
	Code string

	// OIDC is the address that starts a login at the OpenID Connect provider. It is empty if there is
	// none.
	OIDC string

	// Return is the path to which the browser returns. Empty is the start page.
	Return string
}

// DrawLogin writes the login page.
func DrawLogin(w http.ResponseWriter, r *http.Request, status int, p LoginPage) {
	protectPage(w.Header())
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, "login", struct {
		LoginPage
		Theme string
	}{p, theme(r)}); err != nil {
		http.Error(w, "The page cannot be drawn.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the browser is gone if this fails
}
