package replay

// Summary counts the items of a replay.
type Summary struct {
	Items int `json:"items"`
	// ToDo is how many of them a run acts on.
	ToDo int `json:"to_do"`
	// Unknown is how many of the ids in the scope name nothing; Missing are some of them.
	Unknown int      `json:"unknown,omitempty"`
	Missing []string `json:"missing,omitempty"`
	// NoEvents says that no event has the label that the plan is limited to.
	NoEvents bool `json:"no_events,omitempty"`
	// Groups count the items by route, action, reason to leave them out and verdict, in no order.
	Groups []Group `json:"groups,omitempty"`
	// Outcomes count the items that a run has acted on, by outcome.
	Outcomes map[ItemOutcome]int `json:"outcomes,omitempty"`
	// Later are the positions of postponed items: another transaction had locked the effect or
	// its stream. The next steps try them again.
	Later []int64 `json:"later,omitempty"`
}

// Acted returns how many items a run has acted on.
func (s *Summary) Acted() int {
	n := 0
	for _, count := range s.Outcomes {
		n += count
	}
	return n
}

// Group counts the items of one route that have the same action, verdict and reason to leave them out.
type Group struct {
	Route   int32   `json:"route_id"`
	Source  string  `json:"source"`
	Name    string  `json:"route"`
	Target  string  `json:"target"`
	Action  Action  `json:"action"`
	LeftOut LeftOut `json:"left_out,omitempty"`
	// Verdict is empty if there was no judge or if the judge did not decide about the items.
	Verdict Verdict `json:"verdict,omitempty"`
	Count   int     `json:"count"`
}

func (s *Summary) add(g Group) {
	s.Items++
	if g.Action != ActionNone {
		s.ToDo++
	}
	for i := range s.Groups {
		h := &s.Groups[i]
		if h.Route == g.Route && h.Action == g.Action && h.LeftOut == g.LeftOut && h.Verdict == g.Verdict {
			h.Count++
			return
		}
	}
	g.Count = 1
	s.Groups = append(s.Groups, g)
}
