package draft

import (
	"maps"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// tryTimes are names of members that contain the time of a try instead of the time of the event.
var tryTimes = []string{"sentat", "deliveredat", "attemptedat", "deliverytime", "deliverytimestamp", "senttimestamp", "requesttime", "requesttimestamp", "sendtime", "dispatchedat", "lastattemptat", "webhooktimestamp"}

// maxChanged is how many members two tries of one event may differ in. Two events differ in more, or
// in their ids.
const maxChanged = 4

// compare finds the members that the sender changes between two tries of one event. Two requests are
// tries of one event if they have the same members, differ in few, and each of those is the number or
// the time of a try or of the request, or if a member that is named as the event's id is the same in
// both.
func (c *captured) compare(others []*providers.Request) {
	mine := byName(c.contents())
	for _, other := range others {
		theirs := byName(capture(other).contents())
		if len(mine) == 0 || len(theirs) != len(mine) {
			continue
		}
		var changed []string
		same, named := true, false
		for _, name := range slices.Sorted(maps.Keys(mine)) {
			value, ok := theirs[name]
			plain, _ := last(name)
			switch {
			case !ok:
				same = false
			case value != mine[name]:
				changed = append(changed, name)
			case slices.Contains(eventIDs, plain) || plain == "id" && eventPrefixes.MatchString(value):
				named = true
			}
		}
		if !same || len(changed) > maxChanged || slices.ContainsFunc(changed, isID) || !named && slices.ContainsFunc(changed, func(name string) bool { return !ofTry(name) }) {
			continue
		}
		c.tries = true
		for _, name := range changed {
			if !slices.Contains(c.changed, name) {
				c.changed = append(c.changed, name)
			}
		}
	}
}

func byName(leaves []leaf) map[string]string {
	out := map[string]string{}
	for _, l := range leaves {
		out[l.name] = l.value
	}
	return out
}

// isID reports whether a member is named as an id is. Two requests that differ in it are two events.
func isID(name string) bool {
	plain, _ := last(name)
	return slices.Contains(eventIDs, plain) || slices.Contains([]string{"id", "uuid", "guid"}, plain)
}

// ofTry reports whether a member is named as the number or the time of a try is.
func ofTry(name string) bool {
	plain, _ := last(name)
	return slices.Contains(attempts, plain) || slices.Contains(tryTimes, plain)
}

// tryMembers returns the members of the payload that are named as the time of a try is and were not
// found to change.
func (c *captured) tryMembers() []string {
	var out []string
	for _, l := range c.contents() {
		if plain, _ := last(l.name); slices.Contains(tryTimes, plain) && !slices.Contains(c.changed, l.name) {
			out = append(out, l.name)
		}
	}
	return out
}

// lists returns the members of the root that are arrays of objects with an id, a type or an event of
// their own. A body with one of them and without an id may be a batch of events.
func (c *captured) lists() []string {
	root, _ := c.doc.(map[string]any)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(root)) {
		list, _ := root[name].([]any)
		if len(list) == 0 || strings.ContainsAny(name, ".*") {
			continue
		}
		first, _ := list[0].(map[string]any)
		for inner := range first {
			if plain := plainName(inner); plain == "id" || slices.Contains(eventIDs, plain) || slices.Contains(types[:8], plain) {
				out = append(out, name)
				break
			}
		}
	}
	return out
}
