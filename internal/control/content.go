package control

// Content are bytes as they were received. The API sends them as a download, so that no browser runs them.
type Content struct {
	// Name is the file name of the download.
	Name string `json:"-"`

	// Bytes are what was received.
	Bytes []byte `json:"-"`
}
