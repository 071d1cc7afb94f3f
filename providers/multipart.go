package providers

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
)

// parseMultipart parses the texts of a multipart/form-data body. is is false for a body of another
// type. The body is already in memory, so its size is limited. parseMultipart limits the number of
// its parts.
func parseMultipart(req *Request) (form url.Values, is bool, err error) {
	media, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return nil, false, nil //nolint:nilerr // a media type that cannot be parsed is not multipart/form-data
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

// file is a file of a multipart body.
type file struct {
	field, name string
	sum         [sha256.Size]byte
}

// multipartFiles returns the digests of the files of a multipart body, in their order, after
// parseMultipart has accepted the body. The digests do not cover the boundary, because a sender
// generates a new one for each attempt.
func multipartFiles(req *Request) []file {
	_, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return nil
	}
	var out []file
	parts := multipart.NewReader(bytes.NewReader(req.Body), params["boundary"])
	for {
		part, err := parts.NextPart()
		if err != nil {
			return out
		}
		if part.FormName() != "" && part.FileName() == "" {
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, part); err != nil {
			return out
		}
		one := file{field: part.FormName(), name: part.FileName()}
		sum.Sum(one.sum[:0])
		out = append(out, one)
	}
}
