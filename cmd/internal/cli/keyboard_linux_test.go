package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncegate/oncegate/inbox/inboxtest"
)

// received is a request that a target took.
type received struct{ key, body string }

// devProcess is an `oncegate dev` that a test started.
type devProcess struct {
	t       *testing.T
	cmd     *exec.Cmd
	environ []string
	dir     string
	out     string
	target  chan received
}

// startDev starts `oncegate dev` with stdin, and a target that takes what it forwards. Its output is in a file.
func startDev(t *testing.T, stdin *os.File, attributes *syscall.SysProcAttr) *devProcess {
	t.Helper()
	url, schema := inboxtest.EmptySchema(t)
	p := &devProcess{t: t, dir: t.TempDir(), target: make(chan received, 100)}
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.target <- received{r.Header.Get("Idempotency-Key"), string(body)}
	}))
	t.Cleanup(target.Close)
	p.environ = []string{"PATH=" + os.Getenv("PATH"), "DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "PORT=0", "ONCEGATE_ADMIN=127.0.0.1:0"}
	p.out = filepath.Join(p.dir, "dev.log")
	log, err := os.Create(p.out)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.CommandContext(t.Context(), "oncegate", "dev", "--forward-to", target.URL)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = p.dir, p.environ, stdin, log, log, attributes
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.shows("What happens shows here")
	return p
}

// shows waits until the output contains the text.
func (p *devProcess) shows(text string) {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); ; {
		content, err := os.ReadFile(p.out)
		if err == nil && strings.Contains(string(content), text) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			p.t.Fatalf("%q: not within %s in\n%s", text, patience, content)
		}
	}
}

func (p *devProcess) takes() received {
	p.t.Helper()
	select {
	case r := <-p.target:
		return r
	case <-time.After(patience):
		p.t.Fatal("the target got nothing")
	}
	return received{}
}

func (p *devProcess) run(args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "oncegate", args...)
	cmd.Dir, cmd.Env = p.dir, p.environ
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func (p *devProcess) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatal(err)
	}
}

// The key r sends the event of the last delivery again under another idempotency key, records nothing, and leaves
// the terminal as it was.
func TestKeyReplaysTheLastEvent(t *testing.T) {
	t.Parallel()
	keyboard, terminal := openTerminal(t)
	before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	p := startDev(t, terminal, &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0})
	p.shows("The key r replays")
	press := func(keys string) {
		t.Helper()
		if _, err := keyboard.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	press("xr")
	p.shows("replay: nothing was delivered yet")
	p.run("send", "stripe", "--event-id", "evt_old")
	p.takes()
	p.run("send", "stripe", "--event-id", "evt_1")
	first := p.takes()
	p.shows("effect done           stripe evt_1")
	press("r")
	second := p.takes()
	if first.body != second.body || !strings.Contains(second.body, "evt_1") {
		t.Errorf("the replay sent %q, not %q", second.body, first.body)
	}
	if first.key == second.key {
		t.Errorf("the replay used the key %q again", first.key)
	}
	p.shows("replay of stripe evt_1 invoice.paid: 1 effect is sent under a new idempotency key")
	if events := p.run("events", "list", "--json"); strings.Count(events, `"event_id"`) != 2 {
		t.Errorf("a replay is no delivery, but the events are %s", events)
	}
	p.stop()
	after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *before != *after {
		t.Errorf("the terminal was %+v and is %+v", *before, *after)
	}
}

// Without a terminal, `oncegate dev` does not read stdin: what is there stays for another reader.
func TestNoKeysWithoutTerminal(t *testing.T) {
	t.Parallel()
	stdin, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer writer.Close()
	if _, err := writer.WriteString("rrr"); err != nil {
		t.Fatal(err)
	}
	p := startDev(t, stdin, nil)
	p.run("send", "stripe")
	p.takes()
	p.shows("effect done")
	p.stop()
	if len(p.target) > 0 {
		t.Errorf("the target got %+v again", <-p.target)
	}
	left := make([]byte, 10)
	if n, err := stdin.Read(left); err != nil || string(left[:n]) != "rrr" {
		t.Errorf("%q is left in stdin: %v", left[:n], err)
	}
}

// openTerminal returns both ends of a new terminal.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return keyboard, terminal
}
