package providers

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
)

// parseMultipart reads the texts of a multipart/form-data body; is is false for a
// body of another type. The body is in memory already and bounds what is read; the
// number of its parts is bounded here.
func parseMultipart(req *Request) (form url.Values, is bool, err error) {
	media, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return nil, false, nil //nolint:nilerr // a type that cannot be read is another
	}
	if params["boundary"] == "" {
		return nil, true, errors.New("multipart without a boundary")
	}
	form = url.Values{}
	parts := multipart.NewReader(bytes.NewReader(req.Body), params["boundary"])
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) && n > 0 {
			return form, true, nil
		}
		if err != nil {
			return nil, true, errors.New("not multipart")
		}
		if n == maxForm {
			return nil, true, errors.New("form has too many fields")
		}
		name := part.FormName()
		if name == "" || part.FileName() != "" {
			continue
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return nil, true, errors.New("not multipart")
		}
		form[name] = append(form[name], string(text))
	}
}
