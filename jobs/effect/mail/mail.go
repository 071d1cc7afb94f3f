// Package mail sends messages over SMTP. [New] makes a [Sender] for one mail server. [NewMessage] makes the [Message]
// of a route, which renders the bytes to send.
package mail

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/mail"
	"net/netip"
	"net/textproto"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail/smtp"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/internal/pgtext"
	"github.com/oncegate/oncegate/jobs/effect"
)

// StartTLS says whether a connection that starts unencrypted is upgraded to TLS.
type StartTLS string

// The values of [StartTLS].
const (
	// StartTLSRequired sends no message and no password unencrypted.
	StartTLSRequired StartTLS = "required"
	// StartTLSOff sends everything unencrypted. [New] then refuses a password.
	StartTLSOff StartTLS = "off"
)

// Config configures a [Sender]. Server is required.
type Config struct {
	// Server is the mail server: smtp://host:port, by default 587, or
	// smtps://host:port with TLS from the first byte, by default 465.
	Server string

	// StartTLS applies to smtp://. It defaults to required.
	StartTLS StartTLS

	// Username and Password log in, if set.
	Username, Password string

	// Hello is the name with which this process introduces itself. It defaults to localhost.
	Hello string

	// TLS is for servers with private certificates. nil uses the system's roots and TLS 1.2 or newer.
	TLS *tls.Config

	// Allow are the private networks that the server's name may resolve to. An address in Server itself is allowed.
	Allow []netip.Prefix

	// Resolver resolves the server's name. It defaults to the standard library's.
	Resolver *net.Resolver
}

// Sender hands one message to a mail server. No mail server recognises a message that it has received before. If a
// message was sent completely and not answered, its outcome is therefore unknown.
type Sender struct {
	cfg     Config
	address string
	host    string
	secure  bool // from the first byte
	guard   *egress.Guard
}

var (
	_ effect.Sender    = (*Sender)(nil)
	_ effect.Previewer = (*Sender)(nil)
)

// New makes a Sender, or reports everything that is wrong with cfg.
func New(cfg Config) (*Sender, error) {
	m := &Sender{cfg: cfg}
	var errs []error
	u, err := url.Parse(cfg.Server)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps":
		return nil, errors.New("server: want smtp://host:port or smtps://host:port")
	case u.User != nil:
		return nil, errors.New("server must not carry a user or password; use username and password")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		errs = append(errs, errors.New("server must have nothing after the port"))
	}
	m.host, m.secure = u.Hostname(), u.Scheme == "smtps"
	port := u.Port()
	if port == "" {
		port = map[bool]string{false: "587", true: "465"}[m.secure]
	}
	m.address = net.JoinHostPort(m.host, port)
	switch cfg.StartTLS {
	case "":
		m.cfg.StartTLS = StartTLSRequired
	case StartTLSRequired, StartTLSOff:
	default:
		errs = append(errs, errors.New("starttls: want required or off"))
	}
	if (cfg.Username == "") != (cfg.Password == "") {
		errs = append(errs, errors.New("username and password go together"))
	}
	if cfg.Username != "" && !m.secure && m.cfg.StartTLS == StartTLSOff {
		errs = append(errs, errors.New("a password is not sent in the clear: use smtps:// or starttls: required"))
	}
	if m.cfg.TLS == nil {
		m.cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	m.cfg.TLS = m.cfg.TLS.Clone()
	m.cfg.TLS.ServerName = m.host
	if m.cfg.Hello == "" {
		m.cfg.Hello = "localhost"
	}
	m.guard = egress.New(egress.Config{Allow: append(egress.Named(m.host), cfg.Allow...), Resolver: cfg.Resolver})
	return m, errors.Join(errs...)
}

// Render implements [effect.Sender]. It always fails, because the route makes the message ([Message.Render]).
func (m *Sender) Render(*effect.Call) ([]byte, error) {
	return nil, errors.New("the route makes no message")
}

// Idempotent implements [effect.Sender]. It returns false because a mail server delivers the same message twice.
func (m *Sender) Idempotent() bool { return false }

// Preview implements [effect.Previewer].
func (m *Sender) Preview(call *effect.Call) (effect.Request, *effect.Result) {
	if _, _, _, err := envelope(call.Rendered); err != nil {
		return effect.Request{}, &effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
	}
	return effect.Request{Body: call.Rendered}, nil
}

// Send implements [effect.Sender]. It sends the message that was rendered.
func (m *Sender) Send(ctx context.Context, call *effect.Call) effect.Result {
	from, to, id, err := envelope(call.Rendered)
	if err != nil {
		return effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
	}
	conn, err := m.guard.DialContext(ctx, "tcp", m.address)
	if err != nil {
		return effect.NotReached(ctx, err)
	}
	conn = &bounded{Conn: conn, left: maxConversation}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if m.secure {
		secured := tls.Client(conn, m.cfg.TLS)
		if err := secured.HandshakeContext(ctx); err != nil {
			return effect.Result{Outcome: effect.Retry, Reason: reasons.TLS, Cause: effect.SafeError(err)}
		}
		conn = secured
	}
	client, result := m.begin(ctx, conn, from, to)
	if result != nil {
		return *result
	}
	return m.data(ctx, client, call.Rendered, id)
}

// begin does everything before the message itself. None of it is an effect.
func (m *Sender) begin(ctx context.Context, conn net.Conn, from, to string) (*smtp.Client, *effect.Result) {
	client, err := smtp.NewClient(conn, m.host)
	if err == nil {
		err = client.Hello(m.cfg.Hello)
	}
	if err == nil && !m.secure && m.cfg.StartTLS == StartTLSRequired {
		if ok, _ := client.Extension("STARTTLS"); !ok {
			return nil, &effect.Result{Outcome: effect.Retry, Reason: reasons.TLS, Cause: "the server does not offer STARTTLS"}
		}
		if err = client.StartTLS(m.cfg.TLS); err != nil && replyCode(err) == 0 {
			return nil, &effect.Result{Outcome: effect.Retry, Reason: reasons.TLS, Cause: effect.SafeError(err)}
		}
	}
	if err == nil && m.cfg.Username != "" {
		if err = m.logIn(client); err != nil {
			// A failed login is not about this message. The message is sent once the login works again.
			r := m.refused(ctx, err)
			r.Outcome = effect.Retry
			return nil, &r
		}
	}
	addressed := err == nil
	if err == nil {
		err = client.Mail(from)
	}
	if err == nil {
		err = client.Rcpt(to)
	}
	if err != nil {
		r := m.refused(ctx, err)
		if !addressed {
			r.Outcome = effect.Retry // the server does not know the message yet
		}
		return nil, &r
	}
	return client, nil
}

func (m *Sender) logIn(client *smtp.Client) error {
	_, offered := client.Extension("AUTH")
	if strings.Contains(" "+offered+" ", " PLAIN ") || !strings.Contains(" "+offered+" ", " LOGIN ") {
		return client.Auth(smtp.PlainAuth("", m.cfg.Username, m.cfg.Password, m.host, false))
	}
	return client.Auth(smtp.LoginAuth(m.cfg.Username, m.cfg.Password, m.host, false))
}

// data sends the message. Before its final dot the server has not accepted anything. After it only the server's answer
// decides.
func (m *Sender) data(ctx context.Context, client *smtp.Client, message []byte, id string) effect.Result {
	w, err := client.Data()
	if err != nil {
		return m.refused(ctx, err)
	}
	if client.Text.R.Buffered() > 0 {
		// The server has sent more replies before it got the message. The next one would be taken for the answer to the
		// message. The message would then count as done although it was not accepted, or be sent again although it was.
		return effect.Result{Outcome: effect.Retry, Reason: reasons.Connection, Cause: "the server answered DATA twice"}
	}
	if _, err := w.Write(message); err != nil {
		return m.refused(ctx, err) // no final dot was sent, and the caller closes the connection
	}
	err = w.Close()
	if err != nil && replyCode(err) < 400 {
		r := effect.Result{Outcome: effect.Unknown, Reason: reasons.Connection, Cause: lost(err)}
		if effect.TimedOut(ctx, err) {
			r.Reason = reasons.Timeout
		} else if ctx.Err() != nil {
			r.Reason = reasons.Stopped
		}
		return r
	}
	if err != nil {
		return m.refused(ctx, err)
	}
	r := effect.Result{Outcome: effect.Done, Code: "250", Stored: []byte(id)}
	if said, ok := w.(interface{ ServerResponse() string }); ok {
		// The reply contains the id under which the server's operator finds the message.
		r.Excerpt = pgtext.Clean("250 "+m.withoutPassword(said.ServerResponse()), effect.MaxExcerpt)
	}
	_ = client.Quit() // its result does not matter
	return r
}

// refused classifies an error that occurred before the server accepted the message.
func (m *Sender) refused(ctx context.Context, err error) effect.Result {
	code := replyCode(err)
	r := effect.Result{Outcome: effect.Retry, Code: strconv.Itoa(code)}
	switch {
	case code == 0:
		r.Code, r.Reason, r.Cause = "", reasons.Connection, lost(err)
		if effect.TimedOut(ctx, err) {
			r.Reason = reasons.Timeout
		} else if ctx.Err() != nil {
			r.Reason = reasons.Stopped
		}
		return r
	case code >= 530 && code <= 538:
		r.Reason = reasons.Mail5xx // it requires a login
	case code >= 500 && code <= 599:
		r.Outcome, r.Reason = effect.Dead, reasons.Mail5xx
	default:
		r.Reason = reasons.Mail4xx
	}
	r.Excerpt = pgtext.Clean(m.withoutPassword(err.Error()), effect.MaxExcerpt)
	return r
}

// lost says how a connection ended. It does not quote an answer that is not an SMTP reply, because the answer may
// repeat what was sent.
func lost(err error) string {
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return effect.SafeError(err)
	}
	return "the server's answer is no reply of SMTP"
}

// replyCode returns the code of a complete reply, or 0 if there was none.
func replyCode(err error) int {
	reply, ok := errors.AsType[*textproto.Error](err)
	if !ok || reply.Code < 200 || reply.Code > 599 {
		return 0
	}
	return reply.Code
}

var messageID = regexp.MustCompile(`^<[0-9a-f]{32}@[^<>\s]+>$`)

// MessageID returns the Message-ID of a message that [Message.Render] made. It returns nil for any other bytes, such as
// the JSON that another kind sends.
func MessageID(rendered []byte) []byte {
	_, _, id, ok := Describe(rendered)
	if !ok {
		return nil
	}
	return []byte(id)
}

// Describe returns the recipient, the subject and the Message-ID of a message that [Message.Render] made. The header of
// the message is enough. It reports false for any other bytes.
func Describe(rendered []byte) (recipient, subject, id string, ok bool) {
	if len(rendered) == 0 || rendered[0] < 'A' || rendered[0] > 'Z' {
		return "", "", "", false
	}
	read, err := mail.ReadMessage(bytes.NewReader(rendered))
	if err != nil {
		return "", "", "", false
	}
	_, to, id, err := envelopeOf(read)
	if err != nil || !messageID.MatchString(id) {
		return "", "", "", false
	}
	subject = read.Header.Get("Subject")
	if plain, err := new(mime.WordDecoder).DecodeHeader(subject); err == nil {
		subject = plain
	}
	return strings.Trim(to, "<>"), subject, id, true
}

// envelope reads the sender, the recipient and the Message-ID of a rendered message.
func envelope(message []byte) (from, to, id string, err error) {
	read, err := mail.ReadMessage(bytes.NewReader(message))
	if err != nil {
		return "", "", "", fmt.Errorf("reading the message: %w", err)
	}
	return envelopeOf(read)
}

func envelopeOf(read *mail.Message) (from, to, id string, err error) {
	senders, err := read.Header.AddressList("From")
	if err != nil || len(senders) != 1 {
		return "", "", "", errors.New("the message does not name one sender")
	}
	recipients, err := read.Header.AddressList("To")
	if err != nil || len(recipients) != 1 {
		return "", "", "", errors.New("the message does not name one recipient")
	}
	return "<" + senders[0].Address + ">", "<" + recipients[0].Address + ">", read.Header.Get("Message-Id"), nil
}
