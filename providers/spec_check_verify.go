package providers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	schemes "github.com/oncegate/oncegate/providers/scheme"
)

func (d *specReader) verify(v *VerifySpec) {
	families := append([]string{familyHMAC, familySignature, familyStatic, familyOperation, familyBroker, familyNone}, slices.Sorted(maps.Keys(schemes.Table()))...)
	d.choice("verify.family", v.Family, families, nil)
	d.choice("verify.authenticates", v.Authenticates, []string{"body", "part", "origin"}, nil)
	d.choice("verify.key.select", v.Key.Select, []string{"all", "header"}, []string{"claim", "path"})
	if v.Key.Select == "header" {
		d.headerName("verify.key.name", v.Key.Name)
	}
	switch v.Family {
	case familyHMAC, familySignature:
		d.signature(v)
		d.timestamp(v)
		if len(v.Credential) > 0 {
			d.at("verify.credential", "does not go with family hmac")
		}
	case familyStatic, familyOperation:
		if len(v.Credential) == 0 {
			d.at("verify.credential", "is required")
		}
		for i := range v.Credential {
			c := &v.Credential[i]
			where := fmt.Sprintf("verify.credential[%d]", i)
			d.choice(where+".scheme", c.Scheme, []string{"bearer", "basic", "header", "query", "json", "form"}, []string{"item"})
			if c.Scheme == "header" && c.Header == "" {
				d.at(where+".header", "is required")
			}
			if c.Header != "" {
				d.headerName(where+".header", c.Header)
			}
			if named := c.Scheme == "query" || c.Scheme == "json" || c.Scheme == "form"; (c.Name != "") != named {
				d.at(where+".name", "goes with query, json and form, and only with these")
			}
			if c.Scheme == "json" {
				d.path(where+".name", c.Name)
			}
			if c.Prefix != "" && c.Scheme != "header" {
				d.at(where+".prefix", "is valid only with header")
			}
		}
		if len(v.Signed) > 0 || len(v.Signature.Headers) > 0 || v.Timestamp.From != "none" {
			d.at("verify", "a credential goes with no signature, signed parts or timestamp")
		}
	}
	if v.Family == familyOperation {
		d.headerName("verify.operation.key", v.Operation.Key)
		d.headerName("verify.operation.name", v.Operation.Name)
	} else if v.Operation != (OperationSpec{}) {
		d.at("verify.operation", "is valid only with family operation")
	}
}

func (d *specReader) headerName(path, name string) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		d.at(path, "%q is not the name of a header", name)
	}
}

func (d *specReader) signature(v *VerifySpec) {
	s := &v.Signature
	const at = "verify.signature"
	d.choice(at+".from", s.From, []string{"header", "all-headers", "numbered-headers", "json", "form", "query"}, nil)
	d.choice(at+".format", s.Format, []string{"value", "list", "positional", "groups"}, nil)
	inHeader := s.From == "header" || s.From == "all-headers" || s.From == "numbered-headers"
	switch {
	case inHeader && len(s.Headers) == 0:
		d.at(at+".headers", "is required")
	case !inHeader && len(s.Headers) > 0:
		d.at(at+".headers", "does not go with from: %s", s.From)
	case s.From == "numbered-headers" && (len(s.Headers) != 1 || !strings.HasSuffix(s.Headers[0], "-N")):
		d.at(at+".headers", "is one name that ends in -N")
	}
	if s.Repeats && (s.From != "header" || s.Format != "value") {
		d.at(at+".repeats", "is valid only with from: header and format: value")
	}
	if s.PrefixOptional && s.Prefix == "" {
		d.at(at+".prefix_optional", "needs a prefix")
	}
	for _, h := range s.Headers {
		d.headerName(at+".headers", h)
	}
	if (s.Path != "") == inHeader {
		d.at(at+".path", "goes with json, form and query, and only with these")
	}
	if s.From == "json" && s.Path != "" {
		d.path(at+".path", s.Path)
	}
	if len(s.Schemes) == 0 {
		d.at(at+".schemes", "is required")
	}
	switch s.Format {
	case "value":
		lengths := map[string]bool{}
		for i := range s.Schemes {
			_, size, _ := algorithm(s.Schemes[i].Algorithm)
			length := fmt.Sprint(size, s.Schemes[i].Encoding)
			if s.Schemes[i].Label != "" || lengths[length] {
				d.at(at+".schemes", "format value takes schemes without labels, told apart by their length")
			}
			lengths[length] = true
		}
		if s.Separator != "" || s.Assign != "" || s.TimestampLabel != "" {
			d.at(at, "separator, assign and timestamp_label go only with format list")
		}
	case "positional":
		if len(s.Schemes) != 1 || s.Schemes[0].Label != "" || s.Separator == "" {
			d.at(at, "format positional takes a separator and one scheme, without a label")
		}
	case "list", "groups":
		if s.Assign == "" {
			d.at(at+".assign", "is required by format %s", s.Format)
		}
		if s.Prefix != "" {
			d.at(at+".prefix", "is valid only with format value")
		}
	}
	if s.Suffix != "" && s.Format != "value" {
		d.at(at+".suffix", "is valid only with format value")
	}
	labels := map[string]bool{}
	for i := range s.Schemes {
		c := &s.Schemes[i]
		where := fmt.Sprintf("%s.schemes[%d]", at, i)
		d.choice(where+".algorithm", c.Algorithm,
			[]string{"hmac-sha1", "hmac-sha256", "hmac-sha384", "hmac-sha512", "ed25519", "rsa-sha1", "rsa-sha256", "ecdsa-p256-sha256", "sha1", "sha256"},
			[]string{"hmac-md5", "jws"})
		if strings.HasPrefix(c.Algorithm, "rsa-") && c.Key != "pem" {
			d.at(where+".key", "an RSA key is pem")
		}
		d.choice(where+".encoding", c.Encoding, []string{"hex", "base64", "base64-lenient", "base64url", "base64url-lenient"}, nil)
		if c.Key != "" {
			d.choice(where+".key", c.Key, []string{"text", "hex", "base64", "base64-lenient", "base64url", "after-colon", "nfkd", "spki", "pem"}, []string{"sha1"})
		}
		if _, size, _ := algorithm(c.Algorithm); size > 0 && c.Algorithm != "ed25519" && (c.Key == "spki" || c.Key == "pem") {
			d.at(where+".key", "is valid only with public keys")
		}
		if (s.Format == "list" || s.Format == "groups") && (c.Label == "" || labels[c.Label] || c.Label == s.TimestampLabel) {
			d.at(where+".label", "is required, once each")
		}
		if c.KeyPrefixRequired && c.KeyPrefix == "" {
			d.at(where+".key_prefix", "is required")
		}
		labels[c.Label] = true
	}
	d.parts(v)
}

func (d *specReader) parts(v *VerifySpec) {
	if len(v.Signed) == 0 {
		d.at("verify.signed", "is required")
	}
	body, stamped, secret := false, false, false
	for i := range v.Signed {
		p := &v.Signed[i]
		where := fmt.Sprintf("verify.signed[%d]", i)
		given := 0
		for _, is := range []bool{p.Word != "", p.Literal != "", len(p.Header) > 0, p.Form != "", p.JSON != "", p.Query != ""} {
			if is {
				given++
			}
		}
		switch {
		case given != 1:
			d.at(where, "is one of body, body-base64, timestamp, method, url, path, query, {literal}, {header}, {json}, {form}, {query}")
		case p.Word != "":
			d.choice(where, p.Word, []string{"body", "body-base64", "timestamp", "method", "url", "path", "query", "document", "form-sorted", "secret", "body-sha256", "body-sha256-hex"}, []string{"body-crc32"})
		case p.JSON != "":
			d.path(where+".json", p.JSON)
		}
		for _, h := range p.Header {
			d.headerName(where+".header", h)
		}
		body = body || p.Word == "body" || p.Word == "body-base64" || p.Word == "body-sha256" || p.Word == "body-sha256-hex" || p.Word == "document" || p.Word == "form-sorted" || p.Form != "" && p.Form == d.formJSON
		secret = secret || p.Word == "secret"
		stamped = stamped || p.Word == "timestamp"
	}
	for i := range v.Signature.Schemes {
		if v.Signature.Schemes[i].digest() != secret {
			d.at("verify.signed", "a plain digest needs the secret among the signed parts, and nothing else may have it there")
		}
	}
	if v.Authenticates == "body" && !body {
		d.at("verify.signed", "authenticates: body needs the body among the signed parts")
	}
	inside := slices.ContainsFunc(v.Signed, func(p Part) bool {
		return v.Timestamp.Path != "" && (v.Timestamp.From == "json" && p.JSON == v.Timestamp.Path || v.Timestamp.From == "form" && p.Form == v.Timestamp.Path)
	})
	if (v.Timestamp.From == "json" || v.Timestamp.From == "form") && !body && !inside && !v.Timestamp.Unsigned {
		d.at("verify.signed", "does not cover the timestamp; say timestamp.unsigned: true")
	}
	if t := &v.Timestamp; t.From != "none" && t.From != "json" && t.From != "form" && !t.Unsigned && !stamped {
		d.at("verify.signed", "does not cover the timestamp; say timestamp.unsigned: true")
	}
	if stamped && v.Timestamp.From == "none" {
		d.at("verify.timestamp", "is required: it is among the signed parts")
	}
}

func (d *specReader) timestamp(v *VerifySpec) {
	t := &v.Timestamp
	const at = "verify.timestamp"
	d.choice(at+".from", t.From, []string{"none", "header", "signature", "json", "form", "scheme"}, nil)
	if _, ok := schemes.Table()[v.Family]; t.From == "scheme" && !ok {
		d.at(at+".from", "scheme is valid only with a family that is a scheme")
	}
	if t.Source != "" {
		d.link(at+".source", t.Source)
	}
	d.choice(at+".unit", t.Unit, []string{"s", "ms", "us", "ns", "rfc3339", "datetime"}, nil)
	if t.From == "header" && len(t.Header) == 0 {
		d.at(at+".header", "is required")
	}
	for _, h := range t.Header {
		d.headerName(at+".header", h)
	}
	inside := t.From == "json" || t.From == "form"
	if inside && t.Path == "" {
		d.at(at+".path", "is required")
	}
	if t.From == "json" && t.Path != "" {
		d.path(at+".path", t.Path)
	}
	if t.From == "signature" && v.Signature.Format != "positional" && v.Signature.TimestampLabel == "" {
		d.at("verify.signature.timestamp_label", "is required: the timestamp comes from the signature")
	}
	if t.Path != "" && !inside {
		d.at(at+".path", "is valid only with from: json or form")
	}
	for name, side := range map[string]Duration{"past": t.Past, "future": t.Future} {
		if side != Off && side > Duration(24*time.Hour) {
			d.at(at+"."+name, "is longer than a day")
		}
	}
}
