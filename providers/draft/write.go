package draft

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// write returns the YAML of the provider as a file of the catalogue would contain it.
func write(name string, c *captured, f *Fit, o Options) (string, []Guess) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if f.extends != "" {
		line("extends: %s # its rules for ids, types, times and answers as well", f.extends)
		line("title: %s", quoted(title(name)))
		line("# docs: https://... # the sender's own page about its webhooks")
		b.WriteString(f.verify)
		return b.String(), []Guess{{What: "id", Sure: "likely", Why: "as " + f.extends + " has it"}}
	}
	var guesses []Guess
	line("title: %s", quoted(title(name)))
	line("# docs: https://... # the sender's own page about its webhooks")
	line("request:")
	if c.req.Method != http.MethodPost && c.req.Method != "" {
		line("  methods: [%s]", c.req.Method)
	}
	line("  max_body: 1MiB")
	line("")
	line("# Proved by the captured request: %s.", f.Text)
	for _, note := range f.Notes {
		line("# Mind: %s.", note)
	}
	b.WriteString(f.verify)
	line("")
	c.body(line)
	line("# What tells events apart. Two events under one id would be one, and the second lost: an id")
	line("# stands here only if it is the event's; otherwise the digest of the whole payload is the id.")
	guesses = append(guesses, c.writeIdentity(f, line))
	if kind := c.kind(f); kind != nil {
		guesses = append(guesses, kind.guess)
		line("type: [%s] # %s: %s", kind.field(), kind.guess.Sure, kind.guess.Why)
	} else {
		guesses = append(guesses, Guess{"type", "", "none", "no member and no header is named as an event's type is: every event is of type unknown"})
		line("# type: [{ json: ... }] # none found: without it every event is of type unknown")
	}
	at := c.moment()
	if at != nil {
		guesses = append(guesses, at.guess)
		line("occurred_at: [%s] # %s: %s", at.field(), at.guess.Sure, at.guess.Why)
	} else {
		guesses = append(guesses, Guess{"time", "", "none", "no member is named as an event's time is"})
	}
	if key, number, kind := c.sequence(at); key != nil {
		guesses = append(guesses, number.guess)
		line("sequence: # %s: %s; a route uses it only where it asks for an order", number.guess.Sure, number.guess.Why)
		line("  kind: %s", kind)
		line("  candidates:")
		line("    - key: %s", key.field())
		line("      number: %s", number.field())
	} else {
		guesses = append(guesses, Guess{"sequence", "", "none", "no object with a version or a time was found"})
	}
	if c.tries && len(c.changed) > 0 {
		list := make([]string, len(c.changed))
		for i, name := range c.changed {
			list[i] = quoted(name)
		}
		line("volatile: [%s] # two of the captured requests are tries of one event and differ in these", strings.Join(list, ", "))
		guesses = append(guesses, Guess{"volatile", strings.Join(c.changed, ", "), "likely", "two requests are tries of one event and differ in them"})
	}
	for _, name := range c.tryMembers() {
		guesses = append(guesses, Guess{"volatile", "JSON " + name, "a guess", "its name is that of the time of a try: if each try has another one, list it under volatile, or a retry becomes another event"})
		line("# volatile: [%s] # if it is the time of the try: otherwise a retry is seen as another event", quoted(name))
	}
	if lists := c.lists(); len(lists) == 1 {
		guesses = append(guesses, Guess{"split", "JSON " + lists[0], "a guess", "a list of objects with ids or types: if each is an event, write split"})
		line("# split: { json: %s } # if each element is an event of its own; json then names members of the element", quoted(lists[0]))
	}
	for _, counter := range c.counters() {
		if slices.Contains(c.changed, counter) {
			continue
		}
		line("# volatile: [%s] # only if it counts the tries of one delivery: events that differ in it alone become one", quoted(counter))
	}
	line("")
	line("# How long the sender delivers again, and so how long ids are kept. Write what it documents.")
	line("windows:")
	line("  retry: { for: 3d, note: \"an assumption: the sender's documentation was not read\" }")
	line("  floor: 30d")
	return b.String(), guesses
}

// writeIdentity writes the identity section. If a member is likely to be the event's id, it uses
// that member. Otherwise it uses the digest of the payload, together with a header that seems to
// identify the delivery, if there is one. If the payload contains no time, several events may have
// the same payload, so the draft adds the signed time header or, without one, treats every delivery
// as an event: recording an event twice is better than losing it.
func (c *captured) writeIdentity(f *Fit, line func(format string, args ...any)) Guess {
	id, maybe, beside := c.identity(f)
	line("identity:")
	if id != nil {
		line("  candidates: [%s] # %s: %s", id.field(), id.guess.Sure, id.guess.Why)
		return id.guess
	}
	g := Guess{"id", "", "none", "no member is named as an event's id is"}
	if maybe != nil {
		g = maybe.guess
	} else if beside != nil {
		g = beside.guess
	}
	instead := func(m *member) {
		if m != nil {
			line("  # If the sender documents %s as the event's id, the same at each try, write instead:", m.where())
			line("  # candidates: [%s]", m.field())
		}
	}
	switch {
	case beside != nil:
		line("  mode: digest # of the whole payload: %s", g.Why)
		line("  with: [%s] # %s: with another value at each try, a retry is seen as another event", beside.field(), beside.guess.Sure)
		g.Why += "; the id is the digest of the payload with " + beside.where()
	case c.dated():
		line("  mode: digest # of the whole payload: %s", g.Why)
		g.Why += "; the id is the digest of the payload"
	case f.time != "":
		line("  mode: digest # of the whole payload, which holds no time")
		line("  with: [{ header: %s }] # if each try is signed anew, a retry is seen as another event", f.time)
		g.Why += "; the id is the digest of the payload, which holds no time, with header " + f.time
	default:
		line("  mode: level # the payload holds neither a time nor an event's id, so that two events can have the same one:")
		line("  # every delivery is an event. If the sender says that no two events have one payload, write mode: digest")
		g.Why += "; the payload holds no time, so every delivery is an event"
	}
	instead(maybe)
	if maybe == nil {
		instead(beside)
	}
	return g
}

// body writes the body section, which describes the format of the content.
func (c *captured) body(line func(format string, args ...any)) {
	multipart := strings.HasPrefix(c.header("Content-Type"), "multipart/form-data")
	switch {
	case c.inForm != "":
		line("body: { form: true, form_json: %s }", quoted(c.inForm))
	case c.formed:
		line("body: { format: any, form: true }")
	case multipart:
		line("body: { format: any, multipart: true }")
	case c.req.Method == http.MethodGet:
		line("body: { format: any, form: true }")
	case c.doc == nil:
		line("body: { format: any }")
	}
	if _, list := c.doc.([]any); list {
		line("split: { json: $, otherwise: elements } # the body is a list: each element is an event")
	}
}

func title(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}

// configuration writes a complete configuration that loads: the provider and one source of it.
func configuration(name, text string, c *captured, f *Fit, o Options) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Drafted from one captured request. What is proved and what is guessed stands beside each part;")
	line("# compare the guesses with the sender's documentation, and with a second request.")
	line("providers:")
	line("  %s:", name)
	for l := range strings.Lines(text) {
		if l = strings.TrimRight(l, "\n"); l == "" {
			line("")
		} else {
			line("    %s", l)
		}
	}
	secret := o.SecretName
	if secret == "" {
		secret = strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_SECRET"
	}
	line("")
	line("sources:")
	line("  %s:", name)
	line("    provider: %s", name)
	line("    secrets: [env:%s]", secret)
	if f.address || f.extends != "" {
		line("    # The address is signed. Behind a proxy that changes it, write the one that the sender has:")
		line("    # external_url: %s", quoted(strings.SplitN(c.req.URL, "?", 2)[0]))
	}
	line("    # routes:")
	line("    #   - { name: all, types: [\"*\"], target: ... }")
	return b.String()
}
