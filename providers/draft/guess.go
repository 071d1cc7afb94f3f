package draft

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// canonicalName returns a header's name as Go writes it.
func canonicalName(name string) string { return http.CanonicalHeaderKey(name) }

// plainName returns a name in lower case and without separators, so that event_id, eventId and
// Event-Id are equal.
func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// last returns the last name of a path, and the one before it.
func last(path string) (name, parent string) {
	parts := strings.Split(path, ".")
	name = plainName(parts[len(parts)-1])
	if len(parts) > 1 {
		parent = plainName(parts[len(parts)-2])
	}
	return name, parent
}

// inside finds a time anywhere in a payload, including in lists.
var inside = regexp.MustCompile(`\b(20[0-9]{2}-[01][0-9]-[0-3][0-9][T +%][0-9]{2}|1[4-9][0-9]{8}([0-9]{3}){0,3}\b)`)

var (
	// eventIDs are names of members that identify an event or a delivery.
	eventIDs = []string{"eventid", "eventuuid", "eventguid", "webhookeventid", "notificationid", "notificationuuid", "webhookdeliveryid", "deliveryid", "deliveryuuid", "callbackid", "hookeventid", "evtid"}
	// headerIDs are such names for headers, without X- and the sender's name.
	headerIDs = []string{"eventid", "deliveryid", "delivery", "webhookid", "hookid", "messageid", "notificationid", "idempotencykey", "eventuuid", "deliveryuuid", "webhookdeliveryid", "webhookeventid", "guid", "deliveryguid", "invocationid", "webhookinvocationid"}
	// eventParents are the objects whose id is the event's.
	eventParents = []string{"event", "notification", "webhookevent", "envelope"}
	// eventPrefixes matches the prefixes of event ids.
	eventPrefixes = regexp.MustCompile(`(?i)^(evt|ev|event|wh|whevt|we|ntf|notif|notification|delivery|dlv|webhook|msg)[_-]`)
	anyID         = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:\-]{0,199}$`)
	idShape       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:\-]{3,199}$`)
	types         = []string{"eventtype", "type", "event", "eventname", "eventkey", "webhookevent", "webhooktype", "notificationtype", "topic", "triggerevent", "trigger", "action", "messagetype", "kind", "name", "scope", "object"}
	headerTypes   = []string{"eventtype", "event", "topic", "eventkey", "eventname", "webhooktype", "webhookevent", "hooktype", "notificationtype", "cetype", "type", "hookresource", "webhooktopic"}
	typeShape     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:/\- ]{0,120}$`)
	instants      = []string{"occurredat", "eventtime", "eventtimestamp", "eventcreatedat", "createdat", "created", "createdtime", "createtime", "timestamp", "triggeredat", "firedat", "publishedat", "occurred", "datecreated", "createddate", "date", "time", "datetime", "eventdate", "ts", "sentat", "updatedat"}
	numbers       = []string{"sequence", "sequencenumber", "seq", "seqno", "version", "revision", "objectversion", "resourceversion", "lockversion", "etagversion"}
	attempts      = []string{"attempt", "attempts", "attemptnumber", "deliveryattempt", "deliveryattempts", "retry", "retries", "retrycount", "retrynum", "retrynumber", "attemptcount", "numattempts", "redelivery", "isretry", "pendingwebhooks"}
)

// member is a guessed field of a provider.
type member struct {
	leaf
	guess Guess
	unit  string
}

// field returns the member as YAML.
func (m *member) field() string {
	name := m.leaf.name
	if m.kind != "header" {
		name = quoted(name)
	}
	out := "{ " + m.kind + ": " + name
	if m.unit != "" {
		out += ", unit: " + m.unit
	}
	return out + " }"
}

// stem returns the end of a header's name that is one of words, without separators. It removes X-
// and the sender's name. It returns an empty string if no end of the name is one of words.
func (c *captured) stem(header string, words []string) string {
	parts := strings.Split(strings.ToLower(header), "-")
	for i := range parts {
		if rest := strings.Join(parts[i:], ""); slices.Contains(words, rest) {
			return rest
		}
	}
	return ""
}

// contents returns the members of the payload.
func (c *captured) contents() []leaf {
	switch {
	case len(c.items) > 0:
		return c.items
	case c.doc != nil:
		return c.json
	}
	return append(slices.Clone(c.form), c.get()...)
}

// get returns the query parameters of a GET request, which providers read like the fields of a
// form.
func (c *captured) get() []leaf {
	if c.req.Method != http.MethodGet {
		return nil
	}
	out := slices.Clone(c.query)
	for i := range out {
		out[i].kind = "form"
	}
	return out
}

// identity guesses the event's id. A member that is named only id may identify the object or the
// subscription. If it were used, the next event would have the same id and would be lost as a
// duplicate. Such a member is therefore only suggested to the operator as maybe, and the digest of
// the payload becomes the id. The same applies to an unsigned header, which is returned as beside.
func (c *captured) identity(f *Fit) (id, maybe, beside *member) {
	pick := func(l leaf, sure, why string) *member {
		switch {
		case l.kind == "header" && f.covered[l.name], l.kind != "header" && f.Covers == "body":
			why += "; it is covered by the signature"
		case f.Covers != "origin":
			why += "; the signature does not cover it"
		}
		return &member{leaf: l, guess: Guess{"id", l.where(), sure, why}}
	}
	for depth := range 3 {
		for _, l := range c.contents() {
			if strings.Count(l.name, ".") == depth && anyID.MatchString(l.value) && !isTime(l.value) {
				if name, _ := last(l.name); slices.Contains(eventIDs, name) {
					return pick(l, "likely", "its name says that it is the event's"), nil, nil
				}
			}
		}
	}
	for _, h := range c.headers {
		if f.covered[h.name] && c.stem(h.name, headerIDs) != "" && idShape.MatchString(h.value) {
			return pick(h, "likely", "its name says that it is the event's or the delivery's, and it is signed"), nil, nil
		}
	}
	for _, l := range c.contents() {
		name, parent := last(l.name)
		if !slices.Contains([]string{"id", "uuid", "guid"}, name) || !idShape.MatchString(l.value) {
			continue
		}
		switch {
		case slices.Contains(eventParents, parent) && strings.Count(l.name, ".") == 1 && c.alone(parent):
			return pick(l, "likely", "it is the id of the member "+parent), nil, nil
		case strings.Contains(l.name, "."):
		case eventPrefixes.MatchString(l.value):
			return pick(l, "likely", "its value begins as ids of events do"), nil, nil
		case c.envelope(l.value) && len(l.value) >= 12:
			return pick(l, "likely", "a type stands beside it, and an object that has an id of its own"), nil, nil
		case maybe == nil:
			maybe = pick(l, "a guess", "it may be the id of the object or of the subscription, which several events have")
		}
	}
	for _, h := range c.headers {
		if stem := c.stem(h.name, headerIDs); beside == nil && stem != "" && idShape.MatchString(h.value) && !strings.HasSuffix(strings.ToLower(h.name), "hook-id") {
			beside = pick(h, "a guess", "its name is that of a delivery's id, which may be another at each try")
		}
	}
	return nil, maybe, beside
}

// dated reports whether the payload contains a time, in which case two events hardly ever have the
// same payload.
func (c *captured) dated() bool {
	return slices.ContainsFunc(c.contents(), func(l leaf) bool { return isTime(l.value) }) || inside.Match(c.req.Body)
}

func isTime(value string) bool {
	_, ok := readClock(value)
	return ok
}

// alone reports whether the root has an object of that name that contains the event's type. Its id
// is then the event's.
func (c *captured) alone(parent string) bool {
	root, _ := c.doc.(map[string]any)
	for name, value := range root {
		if object, ok := value.(map[string]any); ok && plainName(name) == parent {
			for inner := range object {
				if slices.Contains(types[:8], plainName(inner)) {
					return true // the member says what happened, so it is the event
				}
			}
		}
	}
	return false
}

// subscriptions are member names that mark the id in the same object as the subscription's.
var subscriptions = []string{"targeturl", "callbackurl", "callback", "filter", "secret", "webhookurl", "hookurl", "endpointurl"}

// envelope reports whether the payload's root has a type and an object whose id differs from the
// given id, and no member of a subscription.
func (c *captured) envelope(id string) bool {
	root, _ := c.doc.(map[string]any)
	typed, object := false, false
	for name, value := range root {
		if slices.Contains(subscriptions, plainName(name)) {
			return false
		}
		switch value := value.(type) {
		case string:
			typed = typed || slices.Contains(types[:8], plainName(name)) && typeShape.MatchString(value)
		case map[string]any:
			object = object || slices.Contains([]string{"data", "payload", "object", "resource", "record"}, plainName(name)) && identified(value, id, 0)
		}
	}
	return typed && object
}

// identified reports whether an object has an id that differs from the given one.
func identified(object map[string]any, id string, depth int) bool {
	own := false
	for name, value := range object {
		if text := fmt.Sprint(value); slices.Contains([]string{"id", "uuid"}, plainName(name)) {
			if text == id {
				return false
			}
			own = true
		}
		if inner, ok := value.(map[string]any); ok && depth == 0 {
			own = own || identified(inner, id, 1)
		}
	}
	return own
}

// kind guesses the event's type.
func (c *captured) kind(f *Fit) *member {
	inner := c.inner()
	for _, h := range c.headers {
		if stem := c.stem(h.name, headerTypes); stem != "" && typeShape.MatchString(h.value) && !isTime(h.value) && !(inner != nil && inner.value == h.value && f.Covers == "body") && h.name != "Content-Type" && !strings.HasSuffix(h.name, "-Content-Type") {
			return &member{leaf: h, guess: Guess{"type", h.where(), "likely", "its name says so"}}
		}
	}
	return inner
}

// inner guesses the type from the members of the payload.
func (c *captured) inner() *member {
	for i, name := range types {
		for depth := range 2 {
			for _, l := range c.contents() {
				own, parent := last(l.name)
				if own != name || strings.Count(l.name, ".") != depth || !typeShape.MatchString(l.value) || isTime(l.value) {
					continue
				}
				if depth == 1 && (i > 3 || !slices.Contains(append([]string{"data", "meta", "metadata", "header"}, eventParents...), parent)) {
					continue
				}
				sure := "likely"
				if i > 8 || !strings.ContainsAny(l.value, "._:/") && i > 3 {
					sure = "a guess"
				}
				return &member{leaf: l, guess: Guess{"type", l.where(), sure, "its name, and a value that has the shape of a type"}}
			}
		}
	}
	return nil
}

// moment guesses when the event occurred.
func (c *captured) moment() *member {
	for _, name := range instants {
		for depth := range 2 {
			for _, l := range c.contents() {
				own, parent := last(l.name)
				at, ok := readClock(l.value)
				if !ok || own != name || strings.Count(l.name, ".") != depth || depth == 1 && !slices.Contains(append([]string{"meta", "metadata", "header"}, eventParents...), parent) {
					continue
				}
				sure, why := "likely", "its name, and a value that is a time"
				if name == "updatedat" || name == "sentat" {
					sure, why = "a guess", "a time, though its name is not that of an event's"
				}
				return &member{leaf: l, unit: at.unit, guess: Guess{"time", l.where(), sure, why}}
			}
		}
	}
	return nil
}

// sequence guesses the object that the event is about, and the event's position among the events of
// that object.
func (c *captured) sequence(at *member) (key, number *member, kind string) {
	for _, l := range c.contents() {
		name, parent := last(l.name)
		if (name == "id" || name == "uuid") && slices.Contains([]string{"object", "data", "resource", "payload", "record", "attributes"}, parent) && idShape.MatchString(l.value) {
			key = &member{leaf: l}
			break
		}
	}
	if key == nil {
		return nil, nil, ""
	}
	around := key.leaf.name[:strings.LastIndexByte(key.leaf.name, '.')+1]
	for _, name := range numbers {
		for _, l := range c.contents() {
			rest, inside := strings.CutPrefix(l.name, around)
			if own, _ := last(l.name); own == name && (inside && !strings.Contains(rest, ".") || !strings.Contains(l.name, ".") && strings.HasPrefix(name, "seq")) && !l.text && l.value != "" && strings.Trim(l.value, "0123456789") == "" {
				number = &member{leaf: l}
				number.guess = Guess{"sequence", key.where() + " and " + l.where(), "a guess", "the id of an object, and a number whose name says that it counts"}
				return key, number, "version"
			}
		}
	}
	for _, l := range c.contents() {
		rest, inside := strings.CutPrefix(l.name, around)
		moment, isTime := readClock(l.value)
		if own := plainName(rest); inside && isTime && slices.Contains([]string{"updatedat", "updated", "modifiedat", "lastmodified"}, own) {
			number = &member{leaf: l, unit: moment.unit}
			number.guess = Guess{"sequence", key.where() + " and " + l.where(), "a guess", "the id of an object, and when it was changed"}
			return key, number, "time"
		}
	}
	if at == nil {
		return nil, nil, ""
	}
	number = &member{leaf: at.leaf, unit: at.unit}
	number.guess = Guess{"sequence", key.where() + " and " + at.where(), "a guess", "the id of an object, and the time of the event; events of one instant have no order"}
	return key, number, "time"
}

// counters returns the members whose names suggest that they count the attempts of one delivery.
func (c *captured) counters() []string {
	var out []string
	for _, l := range c.contents() {
		if name, _ := last(l.name); slices.Contains(attempts, name) {
			out = append(out, l.name)
		}
	}
	return out
}
