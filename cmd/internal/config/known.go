package config

import (
	"maps"
	"slices"

	"github.com/oncegate/oncegate/providers"
)

// known says which provider may have been meant. There are too many to list.
func known(all map[string]*providers.Provider, name string) string {
	const list = "`oncegate providers list` shows the known ones"
	best, nearest := "", 3
	for _, candidate := range slices.Sorted(maps.Keys(all)) {
		if d := distance(name, candidate); d < nearest {
			best, nearest = candidate, d
		}
	}
	if best == "" || len(name) > 64 {
		return list
	}
	return "did you mean " + best + "? " + list
}

// distance counts the letters to change, add, take away or swap with their
// neighbour, at most 9.
func distance(a, b string) int {
	if len(a)-len(b) > 8 || len(b)-len(a) > 8 || len(a) > 64 {
		return 9
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
