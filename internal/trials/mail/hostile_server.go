package mail

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// hostileServer is a mail server that misbehaves at one stage of its first conversation, and is correct in the others.
type hostileServer struct {
	*rig.Server
	plan      Plan
	authority *authority

	mu   sync.Mutex
	seen []*Conversation
}

func (s *hostileServer) conversations() []Conversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Conversation, len(s.seen))
	for i, c := range s.seen {
		all[i] = *c
		all[i].Clear = slices.Clone(c.Clear)
	}
	return all
}

// note changes the ledger of a conversation.
func (s *hostileServer) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *hostileServer) serve(conn net.Conn) {
	c := &Conversation{}
	t := &talk{server: s, ledger: c, raw: conn, conn: conn, in: bufio.NewReader(conn)}
	s.note(func() {
		t.first = len(s.seen) == 0
		s.seen = append(s.seen, c)
	})
	defer func() { _ = t.conn.Close() }()
	if t.reply(StageGreeting, "220 sink.example") != nil {
		return
	}
	for {
		line, err := textproto.NewReader(t.in).ReadLine()
		if err != nil {
			return
		}
		if err := t.obey(line); err != nil && !errors.Is(err, errNegative) {
			return
		}
	}
}

var (
	errOver     = errors.New("the conversation is over")
	errNegative = errors.New("the answer was negative")
)

// talk is one conversation.
type talk struct {
	server    *hostileServer
	ledger    *Conversation
	raw, conn net.Conn
	in        *bufio.Reader
	first     bool
	recipient string
}

// obey carries out a command.
func (t *talk) obey(line string) error {
	verb, argument, _ := strings.Cut(line, " ")
	verb = strings.ToUpper(verb)
	if !t.ledger.Secret {
		t.server.note(func() { t.ledger.Clear = append(t.ledger.Clear, verb) })
	}
	switch verb {
	case "EHLO", "HELO":
		return t.reply(StageHello, t.extensions()...)
	case "STARTTLS":
		return t.encrypt()
	case "AUTH":
		return t.say("235 welcome")
	case "MAIL":
		return t.reply(StageMail, "250 fine")
	case "RCPT":
		_, argument, _ = strings.Cut(argument, "<")
		t.recipient, _, _ = strings.Cut(argument, ">")
		return t.reply(StageRcpt, "250 fine")
	case "DATA":
		if err := t.reply(StageData, "354 go on"); err != nil {
			return err
		}
		return t.take()
	case "QUIT":
		return errors.Join(t.reply(StageQuit, "221 bye"), errOver)
	case "RSET", "NOOP":
		return t.say("250 fine")
	}
	return t.say("500 what")
}

func (t *talk) extensions() []string {
	switch {
	case !t.server.plan.Encrypted, t.first && t.server.plan.Fault == FaultStrip:
		return []string{"250-sink.example", "250 AUTH PLAIN LOGIN"}
	case t.ledger.Secret:
		return []string{"250-sink.example", "250 AUTH PLAIN LOGIN"}
	}
	return []string{"250-sink.example", "250-AUTH PLAIN LOGIN", "250 STARTTLS"}
}

func (t *talk) encrypt() error {
	if err := t.reply(StageTLS, "220 go on"); err != nil {
		return err
	}
	certificate := t.server.authority.certificate
	if t.first && t.server.plan.Fault == FaultForeign {
		certificate = t.server.authority.foreign
	}
	secured := tls.Server(t.conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err := secured.Handshake(); err != nil { //nolint:noctx // the client ends it
		return fmt.Errorf("encrypting: %w", err)
	}
	t.conn, t.in = secured, bufio.NewReader(secured)
	t.server.note(func() { t.ledger.Secret = true })
	return nil
}

// take reads a message up to its final dot and answers it.
func (t *talk) take() error {
	content, err := textproto.NewReader(t.in).ReadDotBytes()
	if err != nil {
		return fmt.Errorf("reading a message: %w", err)
	}
	read, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("reading a message: %w", err)
	}
	h := read.Header
	t.server.note(func() {
		t.ledger.Dot = true
		t.ledger.Message = Message{ID: h.Get("Message-Id"), Recipient: t.recipient, From: h.Get("From"), To: h.Get("To"), Subject: h.Get("Subject")}
	})
	return t.reply(StageDot, "250 taken")
}

// reply answers as the plan wants it at this stage.
func (t *talk) reply(stage Stage, right ...string) error {
	plan := t.server.plan
	if !t.first || plan.Stage != stage {
		return t.answer(stage, right...)
	}
	switch plan.Fault {
	case FaultLater:
		return t.answer(stage, "451 not now")
	case FaultRefuse:
		return t.answer(stage, "550 never")
	case FaultSilence:
		return t.wait()
	case FaultReset:
		if tcp, ok := t.raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return errors.Join(t.raw.Close(), errOver)
	case FaultClose:
		_, err := io.WriteString(t.conn, right[0][:2])
		return errors.Join(err, errOver)
	case FaultSlow:
		if err := t.spell(strings.Join(right, "\r\n")+"\r\n", 5*time.Millisecond); err != nil {
			return err
		}
		t.answered(stage, right...)
		return nil
	case FaultTrickle:
		_ = t.spell(right[len(right)-1][:3]+"-"+strings.Repeat("so it goes ", 100), 50*time.Millisecond)
		return t.wait()
	case FaultGarbage:
		return t.say("\x00\xff!\"reply?")
	case FaultTwice:
		return t.answer(stage, append(slices.Clone(right), right[len(right)-1])...)
	case FaultStrip, FaultForeign:
	}
	return t.answer(stage, right...)
}

// wait says nothing until the client goes.
func (t *talk) wait() error {
	_, err := io.Copy(io.Discard, t.in)
	return errors.Join(err, errOver)
}

// spell says something byte by byte.
func (t *talk) spell(text string, pause time.Duration) error {
	for i := range len(text) {
		<-time.After(pause)
		if _, err := io.WriteString(t.conn, text[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// answer says a whole reply.
func (t *talk) answer(stage Stage, lines ...string) error {
	// It is in the ledger before the client can act on it.
	t.answered(stage, lines...)
	if err := t.say(lines...); err != nil {
		return err
	}
	if code := lines[0][0]; code == '4' || code == '5' {
		return errNegative
	}
	return nil
}

func (t *talk) answered(stage Stage, lines ...string) {
	code := lines[0][0]
	t.server.note(func() {
		switch stage {
		case StageMail, StageRcpt, StageData, StageDot:
			t.ledger.Refused = t.ledger.Refused || code == '5'
		case StageGreeting, StageHello, StageTLS, StageQuit:
		}
		if stage == StageDot {
			t.ledger.Answered, t.ledger.Taken = true, code == '2'
		}
	})
}

func (t *talk) say(lines ...string) error {
	_, err := io.WriteString(t.conn, strings.Join(lines, "\r\n")+"\r\n")
	return err
}
