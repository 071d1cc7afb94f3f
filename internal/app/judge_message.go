package app

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox/replay"
)

// maxNesting bounds how deeply nested parts of a message are compared.
const maxNesting = 5

// messageChanges returns the members in which two mails differ: headers with their values, and texts and attachments
// with their lengths. ok is false if one of the two is not a mail, or if no compared member differs.
func messageChanges(before, after []byte) (out []replay.Change, ok bool) {
	b, okB := messageMembers(before)
	a, okA := messageMembers(after)
	if !okA || !okB {
		return nil, false
	}
	all := maps.Clone(b)
	maps.Copy(all, a)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if b[path] != a[path] && len(out) < replay.MaxChanges {
			out = append(out, replay.Change{Path: path, Before: b[path].shown(), After: a[path].shown()})
		}
	}
	return out, len(out) > 0
}

// member is a header's value, or the content of a part.
type member struct {
	text    string
	content bool
}

func (m member) shown() string {
	if m.content {
		return fmt.Sprintf("%d bytes", len(m.text))
	}
	return short([]byte(m.text))
}

// messageMembers parses a mail into its headers and parts, under names that people know.
func messageMembers(message []byte) (members map[string]member, ok bool) {
	read, err := mail.ReadMessage(bytes.NewReader(message))
	if err != nil || len(read.Header) == 0 {
		return nil, false
	}
	members = map[string]member{}
	for name, values := range read.Header {
		switch name {
		case "Content-Type", "Content-Transfer-Encoding", "Mime-Version", "Dkim-Signature": // they follow from the parts
		default:
			decoded := strings.Join(values, ", ")
			if plain, err := new(mime.WordDecoder).DecodeHeader(decoded); err == nil {
				decoded = plain
			}
			members[name] = member{text: decoded}
		}
	}
	readPart(members, textproto.MIMEHeader(read.Header), read.Body, maxNesting)
	return members, true
}

func readPart(members map[string]member, header textproto.MIMEHeader, body io.Reader, depth int) {
	kind, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		kind = "text/plain"
	}
	if strings.HasPrefix(kind, "multipart/") && depth > 0 {
		for parts := multipart.NewReader(body, parameters["boundary"]); ; {
			part, err := parts.NextRawPart()
			if err != nil {
				return
			}
			readPart(members, part.Header, part, depth-1)
		}
	}
	switch strings.ToLower(header.Get("Content-Transfer-Encoding")) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	content, _ := io.ReadAll(body) // an undecodable rest is compared by its decodable beginning
	name := map[string]string{"text/plain": "text", "text/html": "html"}[kind]
	if disposition, parameters, err := mime.ParseMediaType(header.Get("Content-Disposition")); err == nil && disposition == "attachment" || name == "" {
		name = "attachment " + parameters["filename"]
	}
	for n, free := 2, name; ; n++ { // a second part of the same name
		if _, taken := members[free]; !taken {
			members[free] = member{text: string(content), content: true}
			return
		}
		free = fmt.Sprintf("%s %d", name, n)
	}
}
