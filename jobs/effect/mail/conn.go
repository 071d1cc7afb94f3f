package mail

import (
	"encoding/base64"
	"errors"
	"net"
	"strings"
)

// maxConversation bounds how many bytes a mail server may send in one attempt, certificates
// included, because SMTP does not limit a reply.
const maxConversation = 256 << 10

var errTalkative = errors.New("the server says too much")

// bounded is a connection from which only a limited number of bytes can be read.
type bounded struct {
	net.Conn
	left int
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTalkative
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// withoutPassword removes the password from what a server says, in every form in which a login
// sends it.
func (m *Sender) withoutPassword(said string) string {
	if m.cfg.Password == "" {
		return said
	}
	for _, form := range []string{
		m.cfg.Password,
		base64.StdEncoding.EncodeToString([]byte("\x00" + m.cfg.Username + "\x00" + m.cfg.Password)),
		base64.StdEncoding.EncodeToString([]byte(m.cfg.Password)),
	} {
		said = strings.ReplaceAll(said, form, "<secret>")
	}
	return said
}
