package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// logs counts what the servers complained of, and looks for panics and for markers: content
// and order keys stand in no log.
func (c *campaign) logs(context.Context) error {
	for _, s := range c.servers {
		content, err := os.ReadFile(s.log)
		if err != nil {
			return fmt.Errorf("reading a log: %w", err)
		}
		if there := markers(content); len(there) > 0 {
			c.violate(violation{leaked, fmt.Sprintf("the log of server %d holds %s", s.number, sorted(there)[0])})
		}
		lines := bufio.NewScanner(bytes.NewReader(content))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line struct{ Level, Msg string }
			switch err := json.Unmarshal(lines.Bytes(), &line); {
			case bytes.HasPrefix(lines.Bytes(), []byte("panic:")), bytes.HasPrefix(lines.Bytes(), []byte("fatal error:")):
				c.violate(violation{crashed, fmt.Sprintf("server %d: %s", s.number, lines.Bytes())})
			case err == nil:
				c.kinds["log: "+line.Level+" "+variable.ReplaceAllString(line.Msg, "#")]++
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("reading a log: %w", err)
		}
	}
	postgres, err := os.ReadFile(c.world.Server.LogPath())
	if err != nil {
		return fmt.Errorf("reading PostgreSQL's log: %w", err)
	}
	c.kinds["deadlocks in PostgreSQL"] = bytes.Count(postgres, []byte("deadlock detected"))
	return nil
}
