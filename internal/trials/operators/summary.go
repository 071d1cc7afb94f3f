package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// requiredFigures must have happened in a full campaign.
var requiredFigures = []string{
	"act: replay plan", "act: replay run", "act: replay plan --new-routes", "act: replay run again", "act: replay cancel", "act: dead replay", "act: dead discard",
	"act: dead discard --filter", "act: effects resolve --done", "act: effects resolve --resend", "act: effects resolve --filter --done",
	"act: effects resolve --filter --resend", "act: streams skip", "act: streams unblock", "act: streams apply <effect>", "act: streams skip <effect>",
	"act: erase", "act: prune", "act: prune --include", "act: routes discard", "act: routes move", "act: conflicts admit", "act: keys rotate",
	"act: keys reseal", "act: keys remove", "act: migrate up", "act: migrate status", "act: look", "command killed", "server killed", "server stopped",
	"reseal, erase and prune at once", "killed: keys reseal", "killed: erase", "killed: prune --include", "killed: replay plan", "killed: replay run",
	"effect pruned", "stranger paused", "stranger cancelled jobs", "refused: erase", "refused: replay run", "refused: routes discard",
	"decided: effect.discard", "decided: effect.resolve.done", "decided: effect.resolve.resend", "decided: effect.move", "decided: stream.skip",
	"decided: stream.unblock", "decided: order.apply", "decided: order.skip", "decided: event.erase", "decided: prune.include",
	"items: replayed", "items: created", "items: changed", "items: decided_since", "replays: done", "replays: cancelled", "effects: done", "effects: dead", "effects: indeterminate",
	"effects: held", "effects: skipped", "effects: superseded", "effects: duplicate", "probe: done", "probe: absent", "deliveries: recorded", "deliveries: duplicate", "deliveries: conflict",
	"answers: 0", "answers: 200", "answers: 400", "answers: 410", "answers: 429", "answers: 500", "answers: 503",
}

// figures counts what happened, by name.
func (c *campaign) figures() map[string]int {
	out := maps.Clone(c.counts)
	for part, counts := range c.finalCounts {
		for name, n := range counts {
			out[part+": "+name] = n
		}
	}
	for name, n := range c.deliveries.counts {
		out["deliveries: "+name] = n
	}
	for _, r := range c.ledger.requestsSince(0) {
		out[fmt.Sprintf("answers: %d", r.answer)]++
	}
	for _, v := range variants {
		out["started "+v.name] += 0
	}
	return out
}

// missingFigures returns what must happen and did not.
func (c *campaign) missingFigures() (out []string) {
	figures := c.figures()
	for _, name := range requiredFigures {
		if figures[name] == 0 {
			out = append(out, name)
		}
	}
	for _, v := range variants {
		if figures["started "+v.name] == 0 {
			out = append(out, "started "+v.name)
		}
	}
	return out
}

// reasonLimit is how many reasons of refusals are printed.
const reasonLimit = 40

// summary formats the campaign in figures.
func (c *campaign) summary(elapsed time.Duration) string {
	figures := c.figures()
	var text strings.Builder
	verdict := "kept"
	if len(c.violations) > 0 {
		kinds := map[rig.Kind]int{}
		for _, v := range c.violations {
			kinds[v.Kind]++
		}
		parts := make([]string, 0, len(kinds))
		for _, kind := range sortedKeys(kinds) {
			parts = append(parts, fmt.Sprintf("%d %s", kinds[kind], kind))
		}
		verdict = "BROKEN: " + strings.Join(parts, ", ")
	}
	fmt.Fprintf(&text, "operators: %s; %d rounds, %d acts, %d events, %d effects, %d requests; seed %d, %.1f s\n",
		verdict, c.rounds, len(c.acts), len(c.deliveries.events), len(c.histories), c.requestsRead, c.seed, elapsed.Seconds())
	for _, part := range []string{"act", "refused", "killed", "decided", "effects", "reasons", "replays", "items", "deliveries", "answers", "probe", "log"} {
		line := []string{}
		for _, name := range sortedKeys(figures) {
			if rest, ok := strings.CutPrefix(name, part+": "); ok {
				line = append(line, fmt.Sprintf("%s %d", rest, figures[name]))
			}
		}
		fmt.Fprintf(&text, "  %-11s %s\n", part, strings.Join(line, ", "))
	}
	var other, because []string
	for _, name := range sortedKeys(figures) {
		switch {
		case strings.HasPrefix(name, "because "):
			because = append(because, name)
		case !strings.Contains(name, ": "):
			other = append(other, fmt.Sprintf("%s %d", name, figures[name]))
		}
	}
	fmt.Fprintf(&text, "  %-11s %s\n  refused because\n", "also", strings.Join(other, ", "))
	slices.SortStableFunc(because, func(a, b string) int { return cmp.Compare(figures[b], figures[a]) })
	for _, name := range because[:min(len(because), reasonLimit)] {
		fmt.Fprintf(&text, "    %4d  %s\n", figures[name], strings.TrimPrefix(name, "because "))
	}
	return text.String()
}
