package providers

import (
	"fmt"
	"strings"
	"time"
)

func (d *decoder) verify(v *VerifySpec) {
	d.choice("verify.family", v.Family, []string{familyHMAC, familyStatic, familyOperation},
		[]string{"rsa", "ecdsa", "x509", "jwt", "jws", "digest", "item-hmac", "form-hmac", "fetch", "rfc9421", "mtls", "ip", "none"})
	d.choice("verify.authenticates", v.Authenticates, []string{"body", "part", "origin"}, nil)
	d.choice("verify.key.select", v.Key.Select, []string{"all"}, []string{"header", "claim", "path"})
	switch v.Family {
	case familyHMAC:
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
			d.choice(where+".scheme", c.Scheme, []string{"bearer", "basic", "header"}, []string{"query", "item"})
			if c.Scheme == "header" && c.Header == "" {
				d.at(where+".header", "is required")
			}
			if c.Header != "" {
				d.headerName(where+".header", c.Header)
			}
			if c.Name != "" {
				d.at(where+".name", "goes only with query and item, which are not implemented in this version")
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
		d.at("verify.operation", "goes only with family operation")
	}
}

func (d *decoder) headerName(path, name string) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		d.at(path, "%q is not the name of a header", name)
	}
}

func (d *decoder) signature(v *VerifySpec) {
	s := &v.Signature
	const at = "verify.signature"
	d.choice(at+".from", s.From, []string{"header"}, []string{"numbered-headers", "json", "form", "query"})
	d.choice(at+".format", s.Format, []string{"value", "list"}, []string{"positional", "groups"})
	if s.From == "header" && len(s.Headers) == 0 {
		d.at(at+".headers", "is required")
	}
	for _, h := range s.Headers {
		d.headerName(at+".headers", h)
	}
	if s.Path != "" && s.From == "header" {
		d.at(at+".path", "does not go with from: header")
	}
	if len(s.Schemes) == 0 {
		d.at(at+".schemes", "is required")
	}
	switch s.Format {
	case "value":
		if len(s.Schemes) > 1 || len(s.Schemes) == 1 && s.Schemes[0].Label != "" {
			d.at(at+".schemes", "format value takes one scheme, without a label")
		}
		if s.Separator != "" || s.Assign != "" || s.TimestampLabel != "" {
			d.at(at, "separator, assign and timestamp_label go only with format list")
		}
	case "list":
		if s.Assign == "" {
			d.at(at+".assign", "is required by format list")
		}
		if s.Prefix != "" {
			d.at(at+".prefix", "goes only with format value")
		}
	}
	labels := map[string]bool{}
	for i := range s.Schemes {
		c := &s.Schemes[i]
		where := fmt.Sprintf("%s.schemes[%d]", at, i)
		d.choice(where+".algorithm", c.Algorithm,
			[]string{"hmac-sha1", "hmac-sha256", "hmac-sha384", "hmac-sha512", "ed25519"},
			[]string{"hmac-md5", "sha1", "sha256", "ecdsa-p256-sha256", "rsa-sha1", "rsa-sha256", "jws"})
		d.choice(where+".encoding", c.Encoding, []string{"hex", "base64", "base64-lenient", "base64url"}, nil)
		if c.Key != "" {
			d.choice(where+".key", c.Key, []string{"text", "hex", "base64", "base64-lenient"}, []string{"sha1", "after-colon", "spki", "pem"})
		}
		if s.Format == "list" && (c.Label == "" || labels[c.Label] || c.Label == s.TimestampLabel) {
			d.at(where+".label", "is required, once each")
		}
		if c.KeyPrefixRequired && c.KeyPrefix == "" {
			d.at(where+".key_prefix", "is required")
		}
		labels[c.Label] = true
	}
	d.parts(v)
}

func (d *decoder) parts(v *VerifySpec) {
	if len(v.Signed) == 0 {
		d.at("verify.signed", "is required")
	}
	body, stamped := false, false
	for i := range v.Signed {
		p := &v.Signed[i]
		where := fmt.Sprintf("verify.signed[%d]", i)
		given := 0
		for _, is := range []bool{p.Word != "", p.Literal != "", len(p.Header) > 0, p.Form != "", p.JSON != ""} {
			if is {
				given++
			}
		}
		switch {
		case given != 1:
			d.at(where, "is one of body, timestamp, method, url, {literal}, {header}")
		case p.Word != "":
			d.choice(where, p.Word, []string{"body", "timestamp", "method", "url"}, []string{"path", "query", "form-sorted", "body-sha256", "body-crc32"})
		case p.Form != "" || p.JSON != "":
			d.at(where, "signed form fields and JSON paths are not implemented in this version")
		}
		for _, h := range p.Header {
			d.headerName(where+".header", h)
		}
		body = body || p.Word == "body"
		stamped = stamped || p.Word == "timestamp"
	}
	if v.Authenticates == "body" && !body {
		d.at("verify.signed", "authenticates: body needs the body among the signed parts")
	}
	if t := &v.Timestamp; t.From != "none" && t.From != "json" && !t.Unsigned && !stamped {
		d.at("verify.signed", "does not cover the timestamp; say timestamp.unsigned: true")
	}
	if stamped && v.Timestamp.From == "none" {
		d.at("verify.timestamp", "is required: it is among the signed parts")
	}
}

func (d *decoder) timestamp(v *VerifySpec) {
	t := &v.Timestamp
	const at = "verify.timestamp"
	d.choice(at+".from", t.From, []string{"none", "header", "signature"}, []string{"json"})
	d.choice(at+".unit", t.Unit, []string{"s", "ms", "rfc3339"}, nil)
	if t.From == "header" && len(t.Header) == 0 {
		d.at(at+".header", "is required")
	}
	for _, h := range t.Header {
		d.headerName(at+".header", h)
	}
	if t.From == "signature" && v.Signature.TimestampLabel == "" {
		d.at("verify.signature.timestamp_label", "is required: the timestamp comes from the signature")
	}
	if t.Path != "" && t.From != "json" {
		d.at(at+".path", "goes only with from: json")
	}
	for name, side := range map[string]Duration{"past": t.Past, "future": t.Future} {
		if side != Off && side > Duration(24*time.Hour) {
			d.at(at+"."+name, "is longer than a day")
		}
	}
}
