package draft

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// carrier is a value of the request that may be a signature, with its encoding and its position in
// the value.
type carrier struct {
	leaf
	from      string // header, numbered-headers, json, form or query
	format    string // value, list, positional or groups
	prefix    string
	suffix    string // the bracket that closes one at the end of prefix
	separator string
	assign    string
	label     string
	stamp     *clock // the time in the same value
	stampName string // the label of stamp
	encoding  string
	sum       []byte
	// unclear is true if the signature has no character that distinguishes base64 from base64url.
	unclear bool
	repeats bool
}

// prefixes matches the part of a header value that precedes a signature, such as sha256= or 1/SHA256/.
var prefixes = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]{0,30}[=: ] ?|[0-9]{1,3}/[A-Za-z0-9_-]{1,20}/)`)

// maxCarriers limits how many candidate signatures are compared.
const maxCarriers = 4000

// carriers returns every interpretation of every value that can be a signature.
func (c *captured) carriers() []carrier {
	var out []carrier
	for _, all := range [][]leaf{c.headers, c.query, c.form, c.json} {
		for _, l := range all {
			if len(l.value) < 16 || len(l.value) > 8<<10 || len(out) >= maxCarriers {
				continue
			}
			out = append(out, read(l)...)
		}
	}
	seen := map[string]int{}
	for _, l := range c.headers {
		seen[l.name]++
	}
	for i := range out {
		out[i].repeats = out[i].kind == "header" && seen[out[i].name] > 1
	}
	return out
}

var numbered = regexp.MustCompile(`-[1-9][0-9]?$`)

func read(l leaf) (out []carrier) {
	base := carrier{leaf: l, from: l.kind, format: "value"}
	if l.kind == "header" && numbered.MatchString(l.name) {
		base.from, base.name = "numbered-headers", numbered.ReplaceAllString(l.name, "-N")
	}
	out = bracketed(base, l.value)
	if m := prefixes.FindString(l.value); m != "" {
		with := base
		with.prefix = m
		if !version.MatchString(m) {
			out = append(out, bracketed(with, l.value[len(m):])...)
		} else {
			defer func() { out = append(out, bracketed(with, l.value[len(m):])...) }() // try it last, because a version is usually a label and not a prefix
		}
	}
	if base.from != "header" {
		return out
	}
	out = append(out, lists(base, l.value, "list")...)
	out = append(out, positional(base, l.value)...)
	if groups := strings.Fields(l.value); len(groups) > 1 {
		for _, group := range groups {
			for _, found := range lists(base, group, "groups") {
				if found.stamp != nil {
					out = append(out, found)
				}
			}
		}
	}
	return out
}

// brackets matches a text in brackets, whose content may be quoted as in a JSON array of one element.
var brackets = regexp.MustCompile(`^(\["?|\("?|\{"?|<)([^\[\](){}<>"]+)("?\]|"?\)|"?\}|>)$`)

// bracketPairs maps what precedes a signature to what follows it.
var bracketPairs = map[string]string{"[": "]", `["`: `"]`, "(": ")", `("`: `")`, "{": "}", `{"`: `"}`, "<": ">"}

// bracketed returns the carriers of a text and, if brackets enclose it, the carriers of the text between them.
// The brackets become parts of the prefix and the suffix, because a provider compares both literally.
func bracketed(c carrier, text string) []carrier {
	out := decoded(c, text)
	if m := brackets.FindStringSubmatch(text); m != nil && bracketPairs[m[1]] == m[3] {
		c.prefix, c.suffix = c.prefix+m[1], m[3]
		out = append(out, decoded(c, m[2])...)
	}
	return out
}

var version = regexp.MustCompile(`^[vV][0-9]+[a-z]?=$`)

// lists parses labelled items, such as t=1,v1=SIGNATURE.
func lists(base carrier, value, format string) []carrier {
	var out []carrier
	for _, separator := range []string{",", ";", "&", "|", " "} {
		for _, assign := range []string{"=", ":", ","} {
			if assign == separator || separator != "," && separator != " " && !strings.Contains(value, separator) {
				continue
			}
			var found []carrier
			var stamp *clock
			var stampName string
			labels := map[string]bool{}
			for item := range strings.SplitSeq(value, separator) {
				label, rest, ok := strings.Cut(strings.Trim(item, " "), assign)
				if !ok || label == "" || len(label) > 30 || strings.ContainsAny(label, " =") {
					continue
				}
				if at, ok := readClock(rest); ok && stamp == nil {
					stamp, stampName = &at, label
					continue
				}
				item := base
				item.format, item.separator, item.assign, item.label = format, separator, assign, label
				found = append(found, decoded(item, rest)...)
				labels[label] = true
			}
			for i := range found {
				if found[i].label != stampName {
					found[i].stamp, found[i].stampName = stamp, stampName
				}
			}
			out = append(out, found...)
		}
	}
	return out
}

// positional parses a time followed by signatures.
func positional(base carrier, value string) []carrier {
	var out []carrier
	for _, separator := range []string{",", ".", ";", ":", "|", " "} {
		stamp, rest, ok := strings.Cut(value, separator)
		at, isTime := readClock(strings.Trim(stamp, " "))
		if !ok || !isTime {
			continue
		}
		for item := range strings.SplitSeq(rest, separator) {
			found := base
			found.format, found.separator, found.stamp = "positional", separator, &at
			out = append(out, decoded(found, strings.Trim(item, " "))...)
		}
	}
	return out
}

// decoded returns the carriers of a text: one for each encoding in which it decodes to the bytes of
// a signature.
func decoded(c carrier, text string) []carrier {
	var out []carrier
	add := func(encoding string, sum []byte, err error) {
		if err != nil || len(sum) < 16 || len(sum) > 1024 {
			return
		}
		found := c
		found.encoding, found.sum = encoding, sum
		found.unclear = encoding != "hex" && !strings.ContainsAny(text, "+/-_")
		out = append(out, found)
	}
	if strings.ContainsAny(text, "\r\n") {
		return nil
	}
	sum, err := hex.DecodeString(text)
	add("hex", sum, err)
	if err == nil {
		return out // a text of hex digits is almost certainly not base64
	}
	sum, err = base64.StdEncoding.Strict().DecodeString(text)
	add("base64", sum, err)
	if err != nil {
		sum, err = base64.RawStdEncoding.Strict().DecodeString(text)
		add("base64-lenient", sum, err)
	}
	if err != nil {
		sum, err = base64.RawURLEncoding.Strict().DecodeString(text)
		add("base64url", sum, err)
	}
	if err != nil {
		sum, err = base64.URLEncoding.Strict().DecodeString(text)
		add("base64url-lenient", sum, err)
	}
	return out
}

// text describes where the signature is and how it is encoded.
func (c *carrier) text() string {
	out := c.where()
	switch {
	case c.format == "list" || c.format == "groups":
		out += " as " + c.label + c.assign + "..."
	case c.format == "positional":
		out += " after the time"
	case c.suffix != "":
		out += fmt.Sprintf(" between %q and %q", c.prefix, c.suffix)
	case c.prefix != "":
		out += fmt.Sprintf(" behind %q", c.prefix)
	}
	return out + ", in " + c.encoding
}

// described lists the carriers in words, each place once.
func described(all []carrier) []string {
	var out []string
	for i := range all {
		c := &all[i]
		if !slices.Contains([]int{16, 20, 32, 48, 64}, len(c.sum)) && len(c.sum) < 64 {
			continue
		}
		text := fmt.Sprintf("%s (%d bytes in %s)", c.where(), len(c.sum), c.encoding)
		if c.kind != "json" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}
