package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// readServerLogs counts the servers' log messages, and looks for panics and for markers: no log may hold content or
// order keys.
func (c *campaign) readServerLogs(context.Context) error {
	for _, s := range c.servers {
		content, err := os.ReadFile(s.log())
		if err != nil {
			return fmt.Errorf("reading a log: %w", err)
		}
		if there := findMarkers(content); len(there) > 0 {
			c.violate(rig.NewViolation(leaked, "the log of server %d holds %s", s.number, sortedKeys(there)[0]))
		}
		lines := bufio.NewScanner(bytes.NewReader(content))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line struct{ Level, Msg string }
			switch err := json.Unmarshal(lines.Bytes(), &line); {
			case bytes.HasPrefix(lines.Bytes(), []byte("panic:")), bytes.HasPrefix(lines.Bytes(), []byte("fatal error:")):
				c.violate(rig.NewViolation(crashed, "server %d: %s", s.number, lines.Bytes()))
			case err == nil:
				c.counts["log: "+line.Level+" "+varyingParts.ReplaceAllString(line.Msg, "#")]++
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("reading a log: %w", err)
		}
	}
	var err error
	c.counts["deadlocks in PostgreSQL"], err = c.Deadlocks()
	return err
}
