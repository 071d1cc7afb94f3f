package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

const readAudit = `
SELECT id::text, action, object, coalesce(reason, ''), coalesce(after ->> 'effect', '')
FROM audit WHERE at >= $1 AND reason LIKE 'act-%' ORDER BY at, id`

// decisions reads the audit entries of the commands, including those of killed commands.
func (c *campaign) decisions(ctx context.Context) error {
	began := time.Now()
	rows, err := c.db.Query(ctx, readAudit, c.lastAudit.Add(-2*readAgainFor))
	if err != nil {
		return fmt.Errorf("reading the audit: %w", err)
	}
	acts := c.allActs()
	var id, action, object, reason, after string
	_, err = pgx.ForEachRow(rows, []any{&id, &action, &object, &reason, &after}, func() error {
		if c.audited[id] {
			return nil
		}
		c.audited[id] = true
		var n int
		if _, err := fmt.Sscanf(reason, "act-%d", &n); err != nil || n >= len(acts) {
			return fmt.Errorf("the audit has a reason that nobody gave: %s", reason)
		}
		c.decision(acts[n], action, object, after)
		return nil
	})
	c.lastAudit = began
	return err
}

// decision records one decision.
func (c *campaign) decision(a *act, action, object, after string) {
	c.mu.Lock()
	c.counts["decided: "+action]++
	c.mu.Unlock()
	if strings.HasPrefix(action, "keys.") {
		return // from an act that is not over yet
	}
	s := a.span()
	if a.ExitCode != 0 {
		s.to = time.Now() // its commit may have come after its end
	}
	if a.decided == nil {
		a.decided = map[string][]string{}
	}
	a.decided[action] = append(a.decided[action], object)
	kind, id, _ := strings.Cut(object, "/")
	end := func(id, how string) {
		if h := c.histories[id]; h != nil {
			h.endings = append(h.endings, ending{how, s, a.String()})
			h.changed = true
		}
	}
	permitted := func(id string, covers ...string) {
		if h := c.histories[id]; h != nil {
			h.permits = append(h.permits, permit{decided: s, from: a.Started, overrides: covers, who: a.String()})
			h.changed = true
		}
	}
	switch inbox.AuditAction(action) {
	case inbox.AuditDiscard, inbox.AuditOrderSkip:
		end(id, discarded)
	case inbox.AuditStreamSkip:
		if after != "" {
			end(after, discarded)
		}
	case inbox.AuditResolveDone:
		end(id, resolved)
	case inbox.AuditResolveResend:
		permitted(id, mayHaveHappened)
	case inbox.AuditOrderApply:
		permitted(id)
	case inbox.AuditErase:
		if kind == "event" && len(a.decided[action]) == 1 { // it has an entry when it begins and another when it ends
			c.erased(s, a)
		}
	default: // the other actions end nothing and send nothing
	}
}

// erased records that all effects of an event were ended.
func (c *campaign) erased(s span, a *act) {
	i := slices.Index(a.args, "--source")
	j := slices.Index(a.args, "--key")
	if i < 0 || j < 0 {
		return
	}
	if e := c.deliveries.events[a.args[i+1]+"/"+a.args[j+1]]; e != nil {
		e.gone = true
	}
	for _, h := range c.histories {
		if h.source == a.args[i+1] && h.event == a.args[j+1] {
			h.endings = append(h.endings, ending{erased, s, a.String()})
			h.changed = true
		}
	}
}
