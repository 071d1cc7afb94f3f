package migrations

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Directives that a file may contain in comments before its first statement.
const (
	// directiveOldest states the oldest program that may run on the schema after this migration, by
	// the newest schema version that the program knows.
	directiveOldest = "oldest"
	// directiveOutside says that the file builds or drops indexes CONCURRENTLY, which is impossible
	// in a transaction.
	directiveOutside = "no-transaction"
)

// file is a parsed migration file.
type file struct {
	sql     string
	oldest  int  // 0 if the file does not state it
	outside bool // run outside a transaction
}

func parseFile(content string) (file, error) {
	f := file{sql: content}
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "--") {
			break
		}
		said, ok := strings.CutPrefix(line, "-- oncegate:")
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(said, " ")
		switch name {
		case directiveOldest:
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return f, fmt.Errorf("%q is no version of the program", value)
			}
			f.oldest = n
		case directiveOutside:
			f.outside = true
		default:
			return f, fmt.Errorf("directive oncegate:%s is unknown; known are %s and %s", name, directiveOldest, directiveOutside)
		}
	}
	if f.outside {
		if _, err := indexStatements(f.sql); err != nil {
			return f, err
		}
	}
	return f, nil
}

// indexStatement is one statement of a file that runs outside a transaction.
type indexStatement struct {
	sql   string
	index string
	drop  bool
}

var (
	createIndex = regexp.MustCompile(`(?is)^CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+IF\s+NOT\s+EXISTS\s+([a-z_][a-z0-9_]*)\s+ON\s`)
	dropIndex   = regexp.MustCompile(`(?is)^DROP\s+INDEX\s+CONCURRENTLY\s+IF\s+EXISTS\s+([a-z_][a-z0-9_]*)$`)
	comment     = regexp.MustCompile(`(?m)--.*$`)
)

// indexStatements splits a file into statements. It allows only the two statements that can be
// repeated after an interruption at any point.
func indexStatements(sql string) ([]indexStatement, error) {
	var out []indexStatement
	for text := range strings.SplitSeq(comment.ReplaceAllString(sql, ""), ";") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if found := createIndex.FindStringSubmatch(text); found != nil {
			out = append(out, indexStatement{sql: text, index: found[1]})
		} else if found := dropIndex.FindStringSubmatch(text); found != nil {
			out = append(out, indexStatement{sql: text, index: found[1], drop: true})
		} else {
			return nil, errors.New("a file outside a transaction may only CREATE INDEX CONCURRENTLY IF NOT EXISTS and DROP INDEX CONCURRENTLY IF EXISTS: put the rest into a migration of its own")
		}
	}
	return out, nil
}
