package scheme

import (
	"bytes"
	"errors"
	"net/url"
)

// maxFormFields limits the fields of a form.
const maxFormFields = 1000

// readForm parses a form body. It returns an error for more than maxFormFields fields.
func readForm(body []byte) (url.Values, error) {
	if bytes.Count(body, []byte{'&'}) >= maxFormFields {
		return nil, errors.New("form has too many fields")
	}
	return url.ParseQuery(string(body)) //nolint:wrapcheck // the caller says what it means
}
