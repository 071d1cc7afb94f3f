package mail

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"

	"github.com/emersion/go-msgauth/dkim"
)

// DKIMConfig configures a [DKIM]. All fields are required.
type DKIMConfig struct {
	// Domain is the domain that takes responsibility for the message (d=). Selector names its key: the public key is
	// published as a TXT record of <selector>._domainkey.<domain>.
	Domain, Selector string

	// Key is the private key in PEM: RSA of 2048 bits or more (PKCS #1 or #8), or Ed25519 (PKCS #8).
	Key []byte
}

// DKIM signs messages (RFC 6376, RFC 8463).
type DKIM struct {
	options dkim.SignOptions
}

// minRSA is the least length of an RSA key, in bits, that RFC 8301 recommends to signers.
const minRSA = 2048

var domainForm = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*$`)

// signedHeaders are the fields that a signature covers. It also covers a field that the message lacks, so that a relay
// cannot add one unnoticed. From is named twice, so that a relay cannot add a second one.
var signedHeaders = []string{
	"From", "From", "To", "Cc", "Subject", "Date", "Message-ID", "Reply-To", "In-Reply-To", "References", "Auto-Submitted", "List-Unsubscribe",
	"List-Unsubscribe-Post", "MIME-Version", "Content-Type", "Content-Transfer-Encoding",
}

// NewDKIM makes a DKIM, or reports everything that is wrong with cfg. Its error never quotes the key.
func NewDKIM(cfg DKIMConfig) (*DKIM, error) {
	var errs []error
	if !domainForm.MatchString(cfg.Domain) || len(cfg.Domain) > 253 {
		errs = append(errs, errors.New("dkim: domain is no domain such as example.com"))
	}
	if !domainForm.MatchString(cfg.Selector) || len(cfg.Selector) > 63 {
		errs = append(errs, errors.New("dkim: selector is no name such as mail2026"))
	}
	key, err := privateKey(cfg.Key)
	if err != nil {
		errs = append(errs, fmt.Errorf("dkim: key: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &DKIM{options: dkim.SignOptions{
		Domain: cfg.Domain, Selector: cfg.Selector, Signer: key, Hash: crypto.SHA256, HeaderKeys: signedHeaders,
		HeaderCanonicalization: dkim.CanonicalizationRelaxed, BodyCanonicalization: dkim.CanonicalizationRelaxed,
	}}, nil
}

func privateKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is not PEM; `openssl genpkey -algorithm ed25519` and `openssl genrsa 2048` make such keys")
	}
	var key any
	var err error
	if block.Type == "RSA PRIVATE KEY" {
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	} else {
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, errors.New("it is no private key in PKCS #1 or PKCS #8 without a password")
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if bits := k.N.BitLen(); bits < minRSA {
			return nil, fmt.Errorf("an RSA key needs %d bits or more, and it has %d", minRSA, bits)
		}
		return k, nil
	case ed25519.PrivateKey:
		return k, nil
	}
	return nil, errors.New("it is neither an RSA nor an Ed25519 key")
}

// sign returns the message with a signature in front of it.
func (d *DKIM) sign(message []byte) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(len(message) + 1<<10)
	options := d.options
	if err := dkim.Sign(&out, bytes.NewReader(message), &options); err != nil {
		return nil, errors.New("dkim: the message cannot be signed")
	}
	return out.Bytes(), nil
}

var signatureField = []byte("DKIM-Signature:")

// Unsigned returns a message without the signature in front of it. Two renderings of one message differ only in the
// signature, because it contains the time at which it was made.
func Unsigned(message []byte) []byte {
	if !bytes.HasPrefix(message, signatureField) {
		return message
	}
	rest := message
	for {
		at := bytes.Index(rest, []byte("\r\n"))
		if at < 0 {
			return message
		}
		if rest = rest[at+2:]; len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
			return rest
		}
	}
}
