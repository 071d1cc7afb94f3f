package console

import (
	"strings"

	"github.com/oncegate/oncegate/internal/control"
)

// listNodes shows the processes that serve the database, and the status of this one.
func listNodes(r *request) (*page, error) {
	status, err := call(r, &control.ShowStatus, control.NoRequest{})
	if err != nil {
		return nil, err
	}
	nodes, err := call(r, &control.ListNodes, control.NoRequest{})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Nodes", Lead: "The processes that serve this database."}
	if status.Ready != nil && !*status.Ready {
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "bad", Text: "This process cannot keep its promise now.", Detail: strings.Join(status.Problems, "; ")}})
	}
	p.Blocks = append(p.Blocks, bufferBlocks(status)...)
	for i := range nodes.Data {
		if n := &nodes.Data[i]; n.NotReloaded != "" {
			p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "bad", Text: n.Name + " could not reload its configuration and runs the one before.", Detail: n.NotReloaded}})
		}
	}
	p.Blocks = append(p.Blocks, block{Table: tableOf(r, nodes, "No process is registered.", []string{"Node", "State", "Version", "Roles", "Configuration", "Started", "Last heard of"}, func(n control.Node) []cell {
		live := "silent"
		if n.Live {
			live = "live"
		}
		return []cell{text(n.Name), state(live), text(n.Version), text(strings.Join(n.Roles, ", ")), code(n.Configuration), instant(n.StartedAt), instant(n.Heartbeat)}
	})})
	keys, err := call(r, &control.ListKeys, control.ListKeysRequest{})
	if err != nil {
		return nil, err
	}
	if len(keys.Data) > 0 {
		p.Blocks = append(p.Blocks, block{ID: "keys", Title: "Sealing keys", Table: tableOf(r, keys, "", []string{"Key", "Fingerprint", "State"}, func(k control.Key) []cell {
			active := "kept"
			if k.Active {
				active = "active"
			}
			return []cell{number(k.ID), code(k.Fingerprint), state(active)}
		})})
	}
	p.Blocks = append(p.Blocks, block{ID: "schema", Title: "Schema", Facts: []fact{
		is("Version of the tables", number(status.Schema)), is("Known to this process", number(status.SchemaKnown)), is("Version of this process", text(status.Version)),
	}})
	return p, nil
}

// bufferBlocks say what the buffer keeps. There are none without a buffer.
func bufferBlocks(s *control.Status) []block {
	b := s.Buffer
	if b == nil {
		return nil
	}
	said := notice{Kind: "info", Text: "The buffer works.", Detail: b.Words(s.Time)}
	switch {
	case !b.Connected:
		said.Kind, said.Text = "bad", "The buffer is away: this process reaches none of its servers."
	case b.Active != nil && *b.Active:
		said.Kind, said.Text = "warn", "Deliveries go to the buffer."
	}
	return []block{{ID: "buffer", Notice: &said}}
}
