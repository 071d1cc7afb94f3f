package config

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
)

// redacted replaces a credential.
const redacted = "xxxxx"

// anyURL matches addresses within a text, such as an expression.
var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>` + "`" + `]+`)

// wholeURL matches a text that is one address. It includes characters that end an address within a
// text.
var wholeURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://\S+$`)

// placeholder matches a value that is filled in later and is therefore not secret.
var placeholder = regexp.MustCompile(`^\{[a-z_]+\}$`)

// RedactURL hides the parts of an address that may be credentials: the password; the whole user
// information if there is no password or the scheme is HTTP; the values of the query; the fragment;
// and path segments that look like a token. In a database address, the user and the query
// parameters that are not credentials remain. RedactURL hides a text that is not an address
// completely, because a credential may be anywhere in it.
func RedactURL(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme == "" {
		if text == "" {
			return ""
		}
		return "<secret>"
	}
	authority, rest := cutBefore(rest, "/?#")
	path, rest := cutBefore(rest, "?#")
	query, fragment := cutBefore(rest, "#")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		switch {
		case password == "" || strings.HasPrefix(strings.ToLower(scheme), "http"):
			user = keepUser(scheme, user, password)
		default:
			user += ":" + redacted
		}
		authority = user + authority[at:]
	}
	if !isDatabase(scheme) { // in a database address, the path is the database's name
		pieces := strings.Split(path, "/")
		for i := range pieces {
			if looksLikeToken(pieces[i]) {
				pieces[i] = redacted
			}
		}
		path = strings.Join(pieces, "/")
	}
	if len(query) > 1 {
		query = "?" + redactQuery(query[1:], scheme)
	}
	if len(fragment) > 1 {
		fragment = "#" + redacted
	}
	return scheme + "://" + authority + path + query + fragment
}

// keepUser keeps the user of a database address without a password, because a user name is not
// secret.
func keepUser(scheme, user, password string) string {
	if isDatabase(scheme) && password == "" {
		return user
	}
	return redacted
}

func isDatabase(scheme string) bool {
	return slices.Contains([]string{"postgres", "postgresql"}, strings.ToLower(scheme))
}

// cutBefore splits a text before the first of the given characters.
func cutBefore(s, stops string) (before, from string) {
	if i := strings.IndexAny(s, stops); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// connecting lists the parameters of a database address that contain no credential.
var connecting = []string{
	"sslmode", "sslrootcert", "sslcert", "sslkey", "sslsni", "sslnegotiation", "host", "port", "user", "dbname", "connect_timeout", "application_name",
	"target_session_attrs", "search_path", "default_query_exec_mode", "pool_max_conns", "pool_min_conns", "pool_max_conn_lifetime",
	"passfile", "servicefile", "service", "channel_binding", "timezone", "fallback_application_name", "statement_timeout",
}

func redactQuery(query, scheme string) string {
	members := strings.Split(query, "&")
	for i, member := range members {
		name, value, assigned := strings.Cut(member, "=")
		switch {
		case !assigned && member != "":
			members[i] = redacted
		case value == "" || placeholder.MatchString(value):
		case isDatabase(scheme) && slices.Contains(connecting, strings.ToLower(name)):
		default:
			members[i] = name + "=" + redacted
		}
	}
	return strings.Join(members, "&")
}

// looksLikeToken distinguishes the random segments of webhook addresses from words. A segment looks
// random if it is very long, or has a run of twenty characters with both letters and digits.
func looksLikeToken(piece string) bool {
	if len(piece) >= 40 {
		return true
	}
	return slices.ContainsFunc(strings.FieldsFunc(piece, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }), func(run string) bool {
		return len(run) >= 20 && strings.ContainsFunc(run, unicode.IsDigit) && strings.ContainsFunc(run, unicode.IsLetter)
	})
}

// RedactURLs hides the credentials of all addresses in a text.
func RedactURLs(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	if shown, ok := redactTemplate(text); ok {
		return shown
	}
	if wholeURL.MatchString(text) {
		return RedactURL(text)
	}
	return anyURL.ReplaceAllStringFunc(text, RedactURL)
}

// redactTree returns the tree with the credentials of all addresses hidden.
func redactTree(tree yaml.MapSlice) yaml.MapSlice {
	text, err := yaml.Marshal(tree)
	if err != nil { // strings, numbers and lists of them always marshal
		return nil
	}
	var plain yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &plain, yaml.UseOrderedMap()); err != nil {
		return nil
	}
	out, _ := redactValue(plain).(yaml.MapSlice)
	return out
}

func redactValue(v any) any {
	switch v := v.(type) {
	case yaml.MapSlice:
		for i := range v {
			v[i].Value = redactValue(v[i].Value)
		}
	case []any:
		for i := range v {
			v[i] = redactValue(v[i])
		}
	case string:
		return RedactURLs(v)
	}
	return v
}
