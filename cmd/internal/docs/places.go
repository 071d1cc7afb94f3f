package docs

import (
	"net/http"
	"strings"

	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// places documents how to do each thing: by a command, by the API, or on a page.
func places() string {
	described := map[string]control.Description{}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		described[d.ID] = d
	}
	var rows [][]string
	for _, place := range console.Places() {
		operation := ""
		if d, ok := described[place.Operation]; ok {
			operation = code(d.ID) + " `" + strings.TrimPrefix(d.Method+" ", http.MethodGet+" ") + d.Path + "`"
		}
		var commands []string
		for _, command := range place.Commands {
			commands = append(commands, linked(command, "oncegate "+command, "commands/"))
		}
		rows = append(rows, []string{strings.Join(commands, ", "), operation, code(place.Page), place.Reason})
	}
	return table([]string{"command", "operation of the API", "page", "the missing places, and why"}, rows)
}
