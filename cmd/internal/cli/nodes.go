package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) nodesCommand() *cobra.Command {
	return group("nodes", "List the processes that serve this database", s.nodesListCommand())
}

func (s *shell) nodesListCommand() *cobra.Command {
	list := newList(s, &control.ListNodes, &nodeColumns, &cobra.Command{
		Short: "List the processes, with their versions, roles and sealing keys",
		Long: "List the processes that serve this database. A star marks the key that a process seals with. A\n" +
			"process whose last heartbeat is older than 30 s is silent: it was killed or cannot reach the\n" +
			"database. Processes of versions that do not know this list are not in it.",
	})
	list.below = func(caller control.Caller, nodes []control.Node) error {
		for i := range nodes {
			if n := &nodes[i]; n.NotReloaded != "" {
				fmt.Fprintf(s.err, "oncegate: %s could not reload its configuration and runs the one before: %s\n", n.Name, n.NotReloaded)
			}
		}
		return s.hintConfigurations(caller, nodes)
	}
	return list.Command
}

var nodeColumns = columns[control.Node]{
	header: []string{"NAME", "STATE", "HEARD", "VERSION", "ROLES", "KEYS", "CONFIGURATION", "STARTED"},
	spare:  []string{"CONFIGURATION", "STARTED", "VERSION"}, ids: []string{"NAME"}, whole: []string{"STATE", "HEARD", "KEYS", "STARTED"},
	cells: func(n *control.Node) []any {
		state := "live"
		if !n.Live {
			state = "silent"
		}
		return []any{n.Name, state, ago(time.Duration(n.SilentSeconds * float64(time.Second))), n.Version, strings.Join(n.Roles, ","), nodeKeys(&n.Row), n.Configuration, n.StartedAt}
	},
}

// hintConfigurations warns, below a table, if live processes have different configurations.
func (s *shell) hintConfigurations(_ control.Caller, nodes []control.Node) error {
	var found []string
	for i := range nodes {
		if n := &nodes[i]; n.Live && !slices.Contains(found, n.Configuration) {
			found = append(found, n.Configuration)
		}
	}
	if len(found) > 1 {
		slices.Sort(found)
		fmt.Fprintf(s.err, "oncegate: the live processes have %d configurations (%s): outside of a deploy, start them all with one\n", len(found), strings.Join(found, ", "))
	}
	return nil
}

// ago formats how long ago something happened.
func ago(d time.Duration) string { return max(d, 0).Round(time.Second).String() + " ago" }

func nodeKeys(n *node.Row) string {
	out := make([]string, len(n.Keys))
	for i, k := range n.Keys {
		if out[i] = strconv.Itoa(int(k.ID)); k.ID == n.ActiveKey {
			out[i] += "*"
		}
	}
	return strings.Join(out, ",")
}

// nodeNames lists the names of the first few processes for a message.
func nodeNames(nodes []node.Row) string {
	const most = 3
	var names []string
	for i := range nodes {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(nodes)-most))
			break
		}
		names = append(names, nodes[i].String())
	}
	return strings.Join(names, ", ")
}
