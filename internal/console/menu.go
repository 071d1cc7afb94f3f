package console

import "strings"

// menuGroup is a part of the menu.
type menuGroup struct {
	Title string
	Links []link
}

// menu returns the menu with the current page marked. The keys are pressed after g.
func menu(path string) []menuGroup {
	groups := []menuGroup{
		{"", []link{
			{Text: "Needs you", Href: "/", Key: "n"},
			{Text: "Overview", Href: "/overview", Key: "o"},
			{Text: "Events", Href: "/events", Key: "e"},
			{Text: "Effects", Href: "/effects", Key: "f"},
		}},
		{"To decide", []link{
			{Text: "Dead letters", Href: "/dead", Key: "d"},
			{Text: "Unknown outcomes", Href: "/unknown", Key: "u"},
			{Text: "Conflicts", Href: "/conflicts", Key: "c"},
			{Text: "Refusals", Href: "/refusals", Key: "r"},
			{Text: "Streams", Href: "/streams", Key: "s"},
			{Text: "Replays", Href: "/replays", Key: "p"},
		}},
		{"Set up", []link{
			{Text: "Sources", Href: "/sources", Key: "i"},
			{Text: "Targets", Href: "/targets", Key: "g"},
			{Text: "Providers", Href: "/providers", Key: "v"},
			{Text: "Operations", Href: "/operations", Key: "q"},
			{Text: "Suppressions", Href: "/suppressions", Key: "x"},
		}},
		{"Run", []link{
			{Text: "Retention", Href: "/retention", Key: "t"},
			{Text: "Notifications", Href: "/notifications", Key: "m"},
			{Text: "Nodes", Href: "/nodes", Key: "h"},
			{Text: "Audit", Href: "/audit", Key: "a"},
			{Text: "Access", Href: "/access", Key: "k"},
		}},
	}
	for i := range groups {
		for j := range groups[i].Links {
			l := &groups[i].Links[j]
			l.Current = path == l.Href || l.Href != "/" && strings.HasPrefix(path, l.Href+"/")
		}
	}
	return groups
}
