package config

import (
	"slices"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// PreviousNames lists the former names of a source or route.
type PreviousNames struct {
	// Names are in the order of the configuration. A name that never existed does no harm, because
	// installations may share a configuration. Names is nil if the key is absent.
	Names []string

	// None reports that the list is present and empty: the source or route is new, even if the
	// database contains others that could be its former self.
	None bool

	node *yamltree.Node
}

// previousNames reads the key previous_names of a source or route.
func (r *reader) previousNames(n *yamltree.Node) PreviousNames {
	out := PreviousNames{Names: []string{}, node: n}
	if n.IsEmpty() {
		n.Fail("is empty; write [] for a source or route that is new")
	}
	for _, item := range n.Items() {
		name := ""
		if yamltree.Read(item, &name, checkedName) && slices.Contains(out.Names, name) {
			item.Fail("%s is listed twice", name)
		}
		out.Names = append(out.Names, name)
	}
	out.None = len(out.Names) == 0 && n.Sound()
	return out
}

// nameClaim is a source or route with the former names that it claims.
type nameClaim struct {
	where    string
	previous PreviousNames
}

// checkPrevious reports a former name that two sources, or two routes of one source, claim, because
// the rows under that name can belong to only one of them.
func (r *reader) checkPrevious(claims []nameClaim) {
	first := map[string]string{}
	for _, c := range claims {
		for _, name := range c.previous.Names {
			if other, twice := first[name]; twice && name != "" && other != c.where {
				c.previous.node.FailKey("%s is a previous name of %s already; only one of them can have been it", name, other)
			}
			first[name] = c.where
		}
	}
}

// previousKey declares the key previous_names of a source or route.
func previousKey(at *PreviousNames, fallback, text string) Key {
	return list("previous_names", &at.Names, words(checkedName), fallback, text).by(func(r *reader, n *yamltree.Node) { *at = r.previousNames(n) })
}
