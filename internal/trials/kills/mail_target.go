package kills

import (
	"bytes"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
)

// serveMail speaks the part of SMTP that receiving a message needs. The recipient's name is the event's id, since the
// messages of all events look alike.
func (t *target) serveMail(conn net.Conn) {
	text := textproto.NewConn(conn)
	event := ""
	if text.PrintfLine("220 sink.example") != nil {
		return
	}
	for {
		line, err := text.ReadLine()
		if err != nil {
			return
		}
		verb, argument, _ := strings.Cut(line, " ")
		answer := "250 fine"
		switch strings.ToUpper(verb) {
		case "RCPT":
			_, argument, _ = strings.Cut(argument, "<")
			event, _, _ = strings.Cut(argument, "@")
		case "DATA":
			if text.PrintfLine("354 go on") != nil {
				return
			}
			if err := t.readMessage(text, event); err != nil {
				return
			}
			if t.script.takeEvent(event) == holdRead && !t.script.hold(t.slot, t.route, event) {
				return
			}
			if text.PrintfLine("250 taken") != nil {
				return
			}
			t.received.Answered(event)
			continue
		case "QUIT":
			answer = "221 bye"
		}
		if text.PrintfLine("%s", answer) != nil {
			return
		}
	}
}

// readMessage reads a message up to the final dot and records it in the ledger.
func (t *target) readMessage(text *textproto.Conn, event string) error {
	content, err := text.ReadDotBytes()
	if err != nil {
		return fmt.Errorf("reading a message: %w", err)
	}
	m, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("reading a message: %w", err)
	}
	t.received.Add(event, m.Header.Get("Message-Id"), "", content)
	return nil
}
