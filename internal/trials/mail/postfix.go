package mail

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/mail"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// postfix is the distribution's Postfix with a separate configuration, spool and Maildir.
type postfix struct {
	dir, address string
	process      *rig.Process
}

const postfixDaemons = "/usr/lib/postfix/sbin"

const postfixMain = `compatibility_level = 3.6
queue_directory = %[1]s/spool
data_directory = %[1]s/data
daemon_directory = ` + postfixDaemons + `
command_directory = /usr/sbin
maillog_file = %[1]s/postfix.log
maillog_file_prefixes = %[1]s
myhostname = sink.example
mydestination =
local_recipient_maps =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtpd_tls_security_level = encrypt
smtpd_tls_chain_files = %[1]s/etc/server.pem
smtpd_relay_restrictions = reject_unauth_destination
default_transport = error:nothing leaves this machine
virtual_transport = virtual
virtual_mailbox_domains = example.com
virtual_mailbox_base = %[1]s/mail
virtual_mailbox_maps = static:all/
virtual_uid_maps = static:%[2]d
virtual_gid_maps = static:%[3]d
`

const postfixMaster = `%s inet n - n - - smtpd
proxymap unix - - n - - proxymap
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
`

func startPostfix(ctx context.Context, a *authority) (_ *postfix, err error) {
	// A test's own directory cannot be entered by the accounts of Postfix.
	p := &postfix{}
	if p.dir, err = os.MkdirTemp("", "oncegate-postfix-"); err != nil {
		return nil, fmt.Errorf("starting Postfix: %w", err)
	}
	if err := p.start(ctx, a); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Postfix: %w: %s", err, rig.TailFile(p.log())), p.close())
	}
	return p, nil
}

func (p *postfix) start(ctx context.Context, a *authority) (err error) {
	if p.address, err = rig.FreeAddress(); err != nil {
		return err
	}
	if err := p.lay(a); err != nil {
		return err
	}
	etc := filepath.Join(p.dir, "etc")
	if out, err := exec.CommandContext(ctx, "/usr/sbin/postfix", "-c", etc, "check").CombinedOutput(); err != nil { //nolint:gosec // a directory of ours
		return fmt.Errorf("%w: %s", err, out)
	}
	if p.process, err = rig.Start(filepath.Join(p.dir, "master.log"), nil, filepath.Join(postfixDaemons, "master"), "-c", etc, "-d"); err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return p.process.Listening(timed, p.address)
}

// lay makes the directories and the configuration.
func (p *postfix) lay(a *authority) error {
	owner, group, err := accountOf("postfix")
	if err != nil {
		return err
	}
	reader, readers, err := accountOf("nobody")
	if err != nil {
		return err
	}
	errs := []error{os.Chmod(p.dir, 0o755)} //nolint:gosec // the accounts of Postfix enter it
	for _, dir := range []string{"etc", "spool", "data", "mail"} {
		errs = append(errs, os.Mkdir(filepath.Join(p.dir, dir), 0o755)) //nolint:gosec // likewise
	}
	key, err := x509.MarshalPKCS8PrivateKey(a.certificate.PrivateKey)
	errs = append(errs, err)
	chain := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Certificate[0]})...)
	return errors.Join(append(errs,
		os.Chown(filepath.Join(p.dir, "data"), owner, group),
		os.Chown(filepath.Join(p.dir, "mail"), reader, readers),
		os.WriteFile(filepath.Join(p.dir, "etc/server.pem"), chain, 0o600),
		os.WriteFile(filepath.Join(p.dir, "etc/main.cf"), fmt.Appendf(nil, postfixMain, p.dir, reader, readers), 0o644), //nolint:gosec // the accounts of Postfix read it
		os.WriteFile(filepath.Join(p.dir, "etc/master.cf"), fmt.Appendf(nil, postfixMaster, p.address), 0o644),          //nolint:gosec // likewise
	)...)
}

func accountOf(name string) (uid, gid int, err error) {
	account, err := user.Lookup(name)
	if err != nil {
		return 0, 0, fmt.Errorf("finding account %s: %w", name, err)
	}
	uid, err1 := strconv.Atoi(account.Uid)
	gid, err2 := strconv.Atoi(account.Gid)
	return uid, gid, errors.Join(err1, err2)
}

func (p *postfix) log() string { return filepath.Join(p.dir, "postfix.log") }

// count is how many messages are in the Maildir.
func (p *postfix) count() (int, error) {
	found, err := filepath.Glob(filepath.Join(p.dir, "mail/all/new/*"))
	return len(found), err
}

// idle reports whether the queue is empty: what was accepted has been delivered.
func (p *postfix) idle() (bool, error) {
	for _, queue := range []string{"incoming", "active", "deferred", "maildrop", "hold"} {
		empty := true
		err := filepath.WalkDir(filepath.Join(p.dir, "spool", queue), func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				empty = false
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was delivered meanwhile
			}
			return err
		})
		if err != nil || !empty {
			return false, err
		}
	}
	return true, nil
}

// read returns all messages of the Maildir.
func (p *postfix) read() ([]Delivered, error) {
	paths, err := filepath.Glob(filepath.Join(p.dir, "mail/all/new/*"))
	if err != nil {
		return nil, fmt.Errorf("reading the Maildir: %w", err)
	}
	all := make([]Delivered, 0, len(paths))
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading the Maildir: %w", err)
		}
		m, err := mail.ReadMessage(f)
		_ = f.Close() // it was read only
		if err != nil {
			return nil, fmt.Errorf("reading a message of the Maildir: %w", err)
		}
		h := m.Header
		all = append(all, Delivered{Signature: h.Get("Dkim-Signature"), Received: h.Get("Received"), Message: Message{
			ID: h.Get("Message-Id"), Recipient: h.Get("Delivered-To"), From: h.Get("From"), To: h.Get("To"), Subject: h.Get("Subject"),
		}})
	}
	return all, nil
}

// close ends Postfix and removes its directory.
func (p *postfix) close() error {
	var err error
	if p.process != nil {
		err = p.process.Stop(30 * time.Second)
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}
