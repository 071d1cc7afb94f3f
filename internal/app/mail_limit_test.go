package app_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
)

const mailLimitFile = `
targets:
  letters: { kind: mail, smtp: env:SMTP, from: Shop <shop@example.com>, starttls: off, timeout: 40s }
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }]
    routes:
      - { name: letter, types: [announce], target: letters, mail: { to: body.to, subject: News, text: Hello } }
`

// A process has at most 20 conversations with a mail server, unless the target says otherwise: every other message of
// a list was put off while the server keeps 20 waiting.
func TestFewConversationsWithAMailServer(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	o := &operated{}
	o.start(t, "oncegate.yml", mailLimitFile, "SMTP=smtp://"+silent.Addr().String())
	to := make([]string, 60)
	for i := range to {
		to[i] = fmt.Sprintf(`"r%d@example.com"`, i)
	}
	if got := o.do(t, "POST", "agents", `{"to":[`+strings.Join(to, ",")+`]}`, "Oncegate-Operation", "announce", "Idempotency-Key", "key-of-a-long-list"); got.status != http.StatusAccepted {
		t.Fatalf("%d %s", got.status, got.body)
	}
	inboxtest.Until(t, "20 conversations begin and 40 messages wait", func() bool {
		return open.Load() >= 20 && rowsOf(t, o.pool, `SELECT count(*) FROM effect WHERE reason = 'target_saturated'`) == 40
	})
	if got := open.Load(); got != 20 {
		t.Errorf("%d conversations, want 20", got)
	}
}
