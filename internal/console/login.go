package console

import (
	"bytes"
	"net/http"
)

// LoginPage is what the page for logging in shows. Its fields are those of package access.
type LoginPage struct {
	// Problem says why the browser is not logged in; empty if nothing was tried.
	Problem string

	// Unsafe says that nobody can log in at the address that the browser uses.
	Unsafe bool

	// Code is the code of a link that logs in once; empty shows the form for a token.
	Code string

	// OIDC is the address that begins a login at the OpenID Connect provider; empty if there is none.
	OIDC string

	// Return is the path to come back to; empty is the start.
	Return string
}

// DrawLogin draws the page for logging in.
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
	_, _ = w.Write(out.Bytes()) // the browser is gone, and there is nobody else to tell
}
