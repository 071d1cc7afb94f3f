package config

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
)

// redacted stands where a credential was.
const redacted = "xxxxx"

// anyURL finds addresses within a text, such as an expression.
var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>` + "`" + `]+`)

// wholeURL is a text that is one address: what would end it within a text is part of it.
var wholeURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://\S+$`)

// placeholder is what is filled in later, and no secret.
var placeholder = regexp.MustCompile(`^\{[a-z_]+\}$`)

// RedactURL hides what may be a credential in an address: the password, or the whole user
// where there is none or the address is one of HTTP, the values of the query, the fragment, and pieces of
// the path that look like a token. Of a database's address the query says how to connect, and
// only its credentials are hidden. A text that is no address is hidden whole, since it may hold
// one anywhere.
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
	if !isDatabase(scheme) { // where the path names the database
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

// keepUser keeps a database's user, who is nobody's secret.
func keepUser(scheme, user, password string) string {
	if isDatabase(scheme) && password == "" {
		return user
	}
	return redacted
}

func isDatabase(scheme string) bool {
	return slices.Contains([]string{"postgres", "postgresql"}, strings.ToLower(scheme))
}

// cutBefore splits a text before the first of some characters.
func cutBefore(s, stops string) (before, from string) {
	if i := strings.IndexAny(s, stops); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// connecting are the parameters of a database's address that hold no credential.
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

// looksLikeToken tells the random pieces of webhook addresses from words: they are very
// long, or have letters and digits in twenty characters without a separator.
func looksLikeToken(piece string) bool {
	if len(piece) >= 40 {
		return true
	}
	return slices.ContainsFunc(strings.FieldsFunc(piece, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }), func(run string) bool {
		return len(run) >= 20 && strings.ContainsFunc(run, unicode.IsDigit) && strings.ContainsFunc(run, unicode.IsLetter)
	})
}

// RedactURLs hides the credentials of all addresses within a text.
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

// redactTree gives the tree with the credentials of all addresses hidden, wherever they are.
func redactTree(tree yaml.MapSlice) yaml.MapSlice {
	text, err := yaml.Marshal(tree)
	if err != nil { // texts, numbers and lists of them always marshal
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
