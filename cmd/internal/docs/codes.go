package docs

import (
	"strconv"

	"github.com/oncegate/oncegate/inbox/receiver"
)

// codes documents what a caller of operations is told when there is no result. Each row can be linked to
// by its code.
func codes() string {
	var rows [][]string
	for _, m := range receiver.Codes() {
		retriable := "no"
		if m.Retriable {
			retriable = "yes"
		}
		rows = append(rows, []string{`<a id="` + string(m.Code) + `"></a>` + code(string(m.Code)), strconv.Itoa(m.Status), m.Title, retriable, m.Next})
	}
	return table([]string{"code", "status", "title", "retriable", "what the caller should do next"}, rows)
}
