package scheme

import (
	"crypto/x509"
	"errors"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// chainKey returns the key of the first certificate in the token. The chain must lead to one of
// the certificates of the option roots. If the option oids is present, the chain has one
// certificate for each of them and the root, and each certificate has the extension at its
// position. Without these, any certificate below a root that signs for many purposes would do.
//
// Certificates are judged at the time of signing (option signed_at), because a sender delivers
// again what it signed before a certificate expired. Without that option they are judged at the
// time of receipt.
func (in *Input) chainKey(parsed *jose.JSONWebSignature) (any, error) {
	roots, err := in.roots()
	if err != nil {
		return nil, err
	}
	at, ok, err := in.signedAt(parsed.UnsafePayloadWithoutVerification())
	if err != nil {
		return nil, err
	}
	if !ok {
		at = in.ReceivedAt
	}
	chains, err := parsed.Signatures[0].Header.Certificates(x509.VerifyOptions{
		Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	switch invalid, known := errors.AsType[x509.CertificateInvalidError](err); {
	case err == nil:
	case errors.Is(err, jose.ErrMissingX5cHeader):
		return nil, refuse(Mismatch, "the token has no certificates (x5c)")
	case known && invalid.Reason == x509.Expired:
		return nil, refuse(Mismatch, "a certificate in the token was not valid when the token was signed")
	default:
		return nil, refuse(Mismatch, "the certificates in the token do not lead to a root of the source")
	}
	oids, err := in.oids()
	if err != nil {
		return nil, err
	}
	fits := func(chain []*x509.Certificate) bool { return len(oids) == 0 || hasExtensions(chain, oids) }
	i := slices.IndexFunc(chains, fits)
	if i < 0 {
		return nil, refuse(Mismatch, "the certificates in the token are not those that the sender signs with")
	}
	return chains[i][0].PublicKey, nil
}

// hasExtensions reports whether a chain has one certificate for each extension, followed by the
// root, and each certificate has its extension.
func hasExtensions(chain []*x509.Certificate, oids []x509.OID) bool {
	if len(chain) != len(oids)+1 {
		return false
	}
	for i, oid := range oids {
		found := false
		for _, extension := range chain[i].Extensions {
			found = found || oid.EqualASN1OID(extension.Id)
		}
		if !found {
			return false
		}
	}
	return true
}

// oids returns the option oids.
func (in *Input) oids() ([]x509.OID, error) {
	var out []x509.OID
	for _, text := range in.Settings["oids"] {
		oid, err := x509.ParseOID(text)
		if err != nil {
			return nil, errors.New("oids: " + text + " is not an object identifier")
		}
		out = append(out, oid)
	}
	return out, nil
}

// checkChain checks the options roots and oids.
func (in *Input) checkChain() error {
	if _, err := in.roots(); err != nil {
		return err
	}
	_, err := in.oids()
	return err
}
