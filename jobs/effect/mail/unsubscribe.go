package mail

import (
	"errors"
	"net/url"
	"strings"
)

// unsubscribeHeader makes the value of List-Unsubscribe from the addresses that its templates made: https: and mailto:
// (RFC 2369). secure reports whether one of them is https:, where a single POST can unsubscribe (RFC 8058).
func unsubscribeHeader(addresses []string) (value string, secure bool, err error) {
	parts := make([]string, len(addresses))
	for i, address := range addresses {
		u, err := url.Parse(address)
		switch {
		case err != nil || len(address) > 900 || !isPrintable(address):
			return "", false, errUnsubscribe
		case u.Scheme == "https" && u.Host != "" && u.User == nil:
			secure = true
		case u.Scheme == "mailto" && strings.Contains(u.Opaque, "@"):
		default:
			return "", false, errUnsubscribe
		}
		parts[i] = "<" + address + ">"
	}
	return strings.Join(parts, ", "), secure, nil
}

var errUnsubscribe = errors.New("list_unsubscribe: want https://host/path or mailto:address, without spaces")

// isPrintable reports whether a text can be written between < and > in a header without escaping.
func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '<' || s[i] == '>' || s[i] == ',' {
			return false
		}
	}
	return true
}
