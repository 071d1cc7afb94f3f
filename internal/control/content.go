package control

// Content are bytes as they were received. The API gives them as a download of no type, so that no browser runs them.
type Content struct {
	// Name is what a download is called.
	Name string `json:"-"`

	// Bytes are what was received.
	Bytes []byte `json:"-"`
}

// hidden replaces content that the access may not see by nothing, and says whether there was any.
func (a Access) hide(texts ...*string) (hidden bool) {
	if a.Scopes.Allow(ReadPayload) {
		return false
	}
	for _, text := range texts {
		if *text != "" {
			*text, hidden = "", true
		}
	}
	return hidden
}
