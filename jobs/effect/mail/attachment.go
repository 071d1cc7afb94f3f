package mail

import (
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits for the attachments of one message. Each recipient of a list has a separate message, which is stored until
// it is sent.
const (
	MaxAttachments     = 20
	MaxAttachmentBytes = 5 << 20 // of all together, decoded
)

// attachment is a file attached to a message.
type attachment struct {
	name, mediaType string
	content         []byte
}

// readAttachments reads a list of {name, type, content}, with content in base64. Its error says which attachment is
// wrong, counted from 1, and quotes nothing.
func readAttachments(value any) ([]attachment, error) {
	if value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, errors.New("it is no list")
	}
	if len(list) > MaxAttachments {
		return nil, fmt.Errorf("there are %d, and %d are the most", len(list), MaxAttachments)
	}
	out := make([]attachment, len(list))
	total := 0
	for i, item := range list {
		a, err := readAttachment(item)
		if err != nil {
			return nil, fmt.Errorf("number %d: %w", i+1, err)
		}
		if total += len(a.content); total > MaxAttachmentBytes {
			return nil, fmt.Errorf("number %d: together they are longer than %d MiB", i+1, MaxAttachmentBytes>>20)
		}
		out[i] = a
	}
	return out, nil
}

func readAttachment(item any) (a attachment, err error) {
	members, ok := item.(map[string]any)
	if !ok {
		return a, errors.New("it is no object with name, type and content")
	}
	for name, into := range map[string]*string{"name": &a.name, "type": &a.mediaType} {
		if *into, ok = members[name].(string); !ok {
			return a, fmt.Errorf("%s is missing or no text", name)
		}
	}
	content, ok := members["content"].(string)
	if !ok {
		return a, errors.New("content is missing or no text")
	}
	if !isFileName(a.name) {
		return a, errors.New("name is no file's name: at most 200 characters, without / and \\ and control characters")
	}
	mediaType, parameters, err := mime.ParseMediaType(a.mediaType)
	if kind, _, _ := strings.Cut(mediaType, "/"); err != nil || !strings.Contains(mediaType, "/") || kind == "multipart" || kind == "message" {
		return a, errors.New("type is no media type such as application/pdf")
	}
	a.mediaType = mime.FormatMediaType(mediaType, parameters)
	if a.mediaType == "" || strings.ContainsAny(a.mediaType, "\r\n") {
		return a, errors.New("type is no media type such as application/pdf")
	}
	if len(content) > base64.StdEncoding.EncodedLen(MaxAttachmentBytes)+4 {
		return a, fmt.Errorf("it is longer than %d MiB", MaxAttachmentBytes>>20)
	}
	if a.content, err = base64.StdEncoding.DecodeString(content); err != nil {
		return a, errors.New("content is not base64")
	}
	return a, nil
}

func isFileName(name string) bool {
	return name != "" && name != "." && name != ".." && utf8.ValidString(name) && utf8.RuneCountInString(name) <= 200 &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return r == '/' || r == '\\' || r == '"' || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
		})
}
