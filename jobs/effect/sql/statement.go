package sql

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var parameterName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// newStatement replaces the names of a statement's parameters with numbers. PostgreSQL checks that
// it is a single statement.
func newStatement(cfg Config) (*Transactional, error) {
	if cfg.Call != "" {
		return nil, errors.New("either call or statement, not both")
	}
	s := &Transactional{parameters: cfg.Parameters}
	if s.parameters == nil {
		s.parameters = map[string]Parameter{}
	}
	var errs []error
	for name := range cfg.Parameters {
		if !parameterName.MatchString(name) {
			errs = append(errs, fmt.Errorf("parameter %q: want a name in lower case", name))
		}
	}
	var out strings.Builder
	rest := cfg.Statement
	for rest != "" {
		i := strings.IndexAny(rest, "'\"@-/$")
		if i < 0 {
			break
		}
		out.WriteString(rest[:i])
		rest = rest[i:]
		n := quoted(rest)
		if name := leadingName(rest); n == 0 && name != "" {
			out.WriteString("$" + strconv.Itoa(s.number(name)))
			rest = rest[1+len(name):]
			continue
		}
		if n == 0 && len(rest) > 1 && rest[0] == '$' && rest[1] >= '0' && rest[1] <= '9' {
			errs = append(errs, errors.New("statement: write parameters as @name, not as $1"))
		}
		n = max(n, 1)
		out.WriteString(rest[:n])
		rest = rest[n:]
	}
	s.statement = out.String() + rest
	for _, name := range s.names {
		if cfg.Parameters[name] == nil {
			errs = append(errs, fmt.Errorf("statement: parameter @%s has no value", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Parameters)) {
		if !slices.Contains(s.names, name) {
			errs = append(errs, fmt.Errorf("parameter %s: the statement does not use it", name))
		}
	}
	return s, errors.Join(errs...)
}

func (s *Transactional) number(name string) int {
	if i := slices.Index(s.names, name); i >= 0 {
		return i + 1
	}
	s.names = append(s.names, name)
	return len(s.names)
}

// leadingName returns the name of the parameter with which the text starts. It is empty for an
// operator such as @>.
func leadingName(s string) string {
	if s[0] != '@' {
		return ""
	}
	end := 1
	for end < len(s) && (s[end] == '_' || s[end] >= 'a' && s[end] <= 'z' || end > 1 && s[end] >= '0' && s[end] <= '9') {
		end++
	}
	return s[1:end]
}

// quoted returns the length of the literal, quoted name or comment with which the text starts, or 0
// if it starts with none.
func quoted(s string) int {
	until := func(begin, end string) int {
		if i := strings.Index(s[len(begin):], end); i >= 0 {
			return len(begin) + i + len(end)
		}
		return len(s)
	}
	switch {
	case s[0] == '\'', s[0] == '"':
		return until(s[:1], s[:1]) // after a doubled quote the next literal starts immediately
	case strings.HasPrefix(s, "--"):
		return until("--", "\n")
	case strings.HasPrefix(s, "/*"):
		return until("/*", "*/")
	case s[0] == '$':
		if tag := dollarTag.FindString(s); tag != "" {
			return until(tag, tag)
		}
	}
	return 0
}

var dollarTag = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*)?\$`)

// argument converts a value to its text, which every type of column accepts. nil stays NULL.
func argument(value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil //nolint:nilnil // NULL
	case string:
		return v, nil
	case []byte:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	document, err := json.Marshal(value)
	if err != nil {
		return nil, errors.New("it cannot be written as JSON")
	}
	return string(document), nil
}
