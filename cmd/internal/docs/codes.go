package docs

import (
	"strconv"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/control"
)

// codes documents the problem codes for callers of operations. Each row can be linked by its code.
func codes() string {
	var rows [][]string
	for _, m := range receiver.Codes() {
		retriable := "no"
		if m.Retriable {
			retriable = "yes"
		}
		rows = append(rows, []string{`<a id="` + string(m.Code) + `"></a>` + code(string(m.Code)), strconv.Itoa(m.Status), m.Title, retriable, code(string(m.Next)), m.Advice})
	}
	return table([]string{"code", "status", "title", "retriable", "next", "what the caller should do next"}, rows)
}

// nextMeanings documents the values of next.
func nextMeanings() string {
	var rows [][]string
	for _, m := range operation.NextMeanings() {
		rows = append(rows, []string{code(string(m.Next)), m.Meaning})
	}
	return table([]string{"next", "what the caller should do"}, rows)
}

// apiCodes documents the problem codes for callers of the API. Each row can be linked by "api-" and
// its code.
func apiCodes() string {
	var rows [][]string
	for _, m := range control.Codes() {
		retriable := "no"
		if m.Retriable {
			retriable = "yes"
		}
		rows = append(rows, []string{`<a id="api-` + string(m.Code) + `"></a>` + code(string(m.Code)), strconv.Itoa(m.Status), m.Title, retriable, m.Next})
	}
	return table([]string{"code", "status", "title", "retriable", "what the caller should do next"}, rows)
}

// commandLineCodes documents the codes of the command line. Each row can be linked by "cli-" and its code.
func commandLineCodes() string {
	var rows [][]string
	for _, m := range errorcode.All() {
		rows = append(rows, []string{`<a id="cli-` + string(m.Code) + `"></a>` + code(string(m.Code)), strconv.Itoa(m.Exit), m.Title, m.Next})
	}
	return table([]string{"code", "exit code", "meaning", "what to do next"}, rows)
}
