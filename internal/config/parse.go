package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mustBe is the form of a setting that has one value so far. It is never printed.
func mustBe(word string) form[string] {
	f := oneOf(word)
	f.parse = func(s string) (string, error) {
		if s != word {
			return "", fmt.Errorf("not built; known is %s", word)
		}
		return s, nil
	}
	return f
}

// connectionString checks a database connection string. Its error quotes nothing because the string
// contains a password.
func connectionString(s string) (string, error) {
	if !strings.Contains(s, "=") && !strings.Contains(s, "://") {
		return "", errors.New("not a PostgreSQL connection string; write postgres://user:password@host:5432/database")
	}
	return s, nil
}

// globForm permits spaces inside a type, because GitLab has them: Push Hook. A comma would be two types in one text.
var globForm = regexp.MustCompile(`^[^\[\]?,\\\x00-\x20]+( [^\[\]?,\\\x00-\x20]+)*$`)

func glob(s string) (string, error) {
	if _, err := path.Match(s, ""); err != nil || !globForm.MatchString(s) || len(s) > 255 {
		return "", errors.New("not an event type: one per element, without commas, and * is the only wildcard")
	}
	return s, nil
}

func httpURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", errors.New("not an address such as https://host/path")
	}
	if u.User != nil {
		return "", errors.New("must hold no user and password; sign the requests instead")
	}
	if u.Fragment != "" {
		return "", errors.New("must hold no #fragment")
	}
	return s, nil
}

// memberPath checks the name of a member, or a dotted path of names.
func memberPath(s string) (string, error) {
	if s == "" || slices.Contains(strings.Split(s, "."), "") {
		return "", errors.New("neither a member's name such as email nor a path such as data.object.email")
	}
	return s, nil
}

var functionForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

func functionName(s string) (string, error) {
	if !functionForm.MatchString(s) {
		return "", errors.New("not a function's name such as ledger.apply_event")
	}
	return s, nil
}

var headerForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

func headerName(s string) (string, error) {
	if !headerForm.MatchString(s) {
		return "", errors.New("not a header's name")
	}
	return s, nil
}

func headerValue(s string) (string, error) {
	if strings.ContainsAny(s, "\r\n\x00") {
		return "", errors.New("must be one line")
	}
	return s, nil
}

func sortedList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// errorLines splits a joined error into its lines, one problem each.
func errorLines(err error) []string {
	var out []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

func checkedName(s string) (string, error) {
	if !nameForm.MatchString(s) {
		return "", errors.New("a name is at most 63 of a-z, 0-9, - and _, and starts with a letter or digit")
	}
	return s, nil
}

var schemaForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

func schemaName(s string) (string, error) {
	if !schemaForm.MatchString(s) {
		return "", errors.New("a schema's name is at most 63 of a-z, 0-9 and _, and starts with a letter")
	}
	return s, nil
}

// connections is the form of the size of a pool.
func connections(least int64) form[int32] {
	return form[int32]{
		parse: func(s string) (int32, error) {
			n, err := strconv.ParseInt(s, 10, 32)
			if err != nil || n < least || n > 1000 {
				return 0, fmt.Errorf("not a whole number from %d to 1000", least)
			}
			return int32(n), nil
		},
		schema: integerFrom(int(least)),
	}
}

func address(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errors.New("not an address such as :8080 or 127.0.0.1:8081")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", errors.New("the port is not a number from 0 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

func prefix(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, errors.New("neither a network (10.0.0.0/8) nor an address")
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}

func level(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, errors.New("unknown; known are debug, info, warn, error")
}
