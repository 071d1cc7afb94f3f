package rig

import (
	"bytes"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
)

// Mail is a message as a mail server got it.
type Mail struct {
	// ID is its Message-ID, and Recipient the address that it was sent to.
	ID, Recipient string

	Content []byte
}

// ServeMail speaks the part of SMTP that receiving messages needs. take gets each message, and reports
// whether the server answers it.
func ServeMail(conn net.Conn, take func(Mail) bool) {
	text := textproto.NewConn(conn)
	m, answer := Mail{}, "220 sink.example"
	for text.PrintfLine("%s", answer) == nil {
		line, err := text.ReadLine()
		if err != nil {
			return
		}
		verb, argument, _ := strings.Cut(line, " ")
		answer = "250 fine"
		switch strings.ToUpper(verb) {
		case "RCPT":
			_, argument, _ = strings.Cut(argument, "<")
			m.Recipient, _, _ = strings.Cut(argument, ">")
		case "DATA":
			if text.PrintfLine("354 go on") != nil {
				return
			}
			if m.Content, err = text.ReadDotBytes(); err != nil {
				return // the client was killed in the middle of the message
			}
			read, err := mail.ReadMessage(bytes.NewReader(m.Content))
			if err != nil {
				return
			}
			if m.ID = read.Header.Get("Message-Id"); !take(m) {
				return
			}
			answer = "250 taken"
		case "QUIT":
			_ = text.PrintfLine("221 bye")
			return
		}
	}
}
