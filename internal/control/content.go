package control

// Content are bytes as they were received. The API sends them as a download, so that no browser runs them.
type Content struct {
	// Name is the file name of the download.
	Name string `json:"-"`

	// Bytes are what was received.
	Bytes []byte `json:"-"`
}

// hide clears texts that the access may not see. It reports whether it cleared any.
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
