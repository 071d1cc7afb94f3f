package proxies

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// The receivers have one port each for deliveries and for the private listener, on two addresses, as two machines have. The
// proxy connects to them from 127.0.0.1, which they trust. Senders connect from an address that they do not trust.
const (
	firstReceiver  = "127.0.0.2"
	secondReceiver = "127.0.0.3"
	senderAddress  = "127.0.0.9"
)

// places are the addresses and paths that a shipped file is changed to.
type places struct {
	dir string

	// front is where the proxy listens. public and private are the receivers' ports.
	front, public, private string

	// control and plain are ports for the proxy's own use.
	control, plain string

	certificate, key, both string
}

// newPlaces chooses free ports and writes the certificate.
func newPlaces(dir string) (*places, error) {
	p := &places{dir: dir, certificate: filepath.Join(dir, "front.pem"), key: filepath.Join(dir, "front.key"), both: filepath.Join(dir, "both.pem")}
	for _, port := range []*string{&p.front, &p.public, &p.private, &p.control, &p.plain} {
		address, err := rig.FreeAddress()
		if err != nil {
			return nil, err
		}
		if _, *port, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// url is the address of the proxy as senders know it.
func (p *places) url() string { return "https://localhost:" + p.front }

// replacement is a text of a shipped file and what it is changed to.
type replacement struct{ old, text string }

// adapt writes a shipped file with its addresses and paths replaced. It fails if the file does not contain one of them.
func adapt(shipped, path string, replacements []replacement) error {
	root, err := lab.Root()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(root, shipped))
	if err != nil {
		return fmt.Errorf("reading the shipped file: %w", err)
	}
	text := string(content)
	for _, r := range replacements {
		if !strings.Contains(text, r.old) {
			return fmt.Errorf("%s does not contain %q, which the campaign replaces", shipped, r.old)
		}
		text = strings.ReplaceAll(text, r.old, r.text)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the proxy's configuration: %w", err)
	}
	return nil
}
