package providers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// maxListed is how many elements one page of a list may have.
const maxListed = 10_000

// Listed is one event in a sender's list.
type Listed struct {
	// ID is the event's id, and Created when the sender created it.
	ID      string
	Created time.Time

	// Delivery is what [Listing.Redelivery] needs; empty where events are admitted.
	Delivery string

	// Body is the body of the webhook that would have carried the event, and Items the events in it, as
	// [Provider.Verify] would read them. Both are empty where the sender delivers again.
	Body  []byte
	Items []Item

	// Unusable is why Oncegate cannot say whether the event has arrived; empty if it can.
	Unusable string
}

// ListedPage is one page of a list.
type ListedPage struct {
	Events []Listed

	// Next is the cursor of the next page; empty on the last page.
	Next string
}

// errNoArray is the error of an answer without the list.
var errNoArray = errors.New("the answer does not have the list of events where the catalogue expects it")

// Page reads an answer. The times that providers see as times of receipt are now.
func (l *Listing) Page(answer []byte, header http.Header, now time.Time) (*ListedPage, error) {
	spans, err := l.answer.Walk(answer)
	if err != nil {
		return nil, fmt.Errorf("reading the list: %w", err)
	}
	at := spans[l.events]
	if !at.Present() || answer[at.Start] != '[' {
		return nil, errNoArray
	}
	elements, err := jsonspan.Elements(answer, at, maxListed)
	if err != nil {
		return nil, fmt.Errorf("reading the list: %w", err)
	}
	page := &ListedPage{Events: make([]Listed, len(elements))}
	for i, element := range elements {
		page.Events[i] = l.listed(element.Of(answer), now)
	}
	page.Next, err = l.nextPage(answer, spans, header, page.Events)
	return page, err
}

// listed reads one element.
func (l *Listing) listed(element []byte, now time.Time) (out Listed) {
	spans, err := l.element.Walk(element)
	if err != nil {
		out.Unusable = "element: " + err.Error()
		return out
	}
	if l.spec.Signed {
		l.signed(element, spans[l.event], now, &out)
		return out
	}
	if out.ID, err = text(element, spans[l.id]); err != nil || out.ID == "" {
		out.Unusable = "it has no id at " + l.spec.ID
		return out
	}
	created, err := text(element, spans[l.created])
	if t, ok := moment(created, l.spec.Created.Unit); err == nil && ok {
		out.Created = t
	}
	if l.delivery >= 0 {
		if out.Delivery, err = text(element, spans[l.delivery]); err != nil || out.Delivery == "" {
			out.Unusable = "it has no delivery at " + l.spec.Redeliver.Delivery
		} else if unstorable(out.ID, maxID) != nil {
			out.Unusable = "its id cannot be stored"
		}
		return out
	}
	event := spans[l.event]
	if !event.Present() {
		out.Unusable = "it has no event at " + l.spec.Event
		return out
	}
	out.Body = []byte(l.wrapStart + string(event.Of(element)) + l.wrapLast)
	out.Items = l.provider.readListed(out.Body, now)
	if len(out.Items) != 1 || out.Items[0].Unusable != "" || out.Items[0].EventID != out.ID {
		out.Unusable = "the provider's rules do not find the id in it"
		if len(out.Items) == 1 && out.Items[0].Unusable != "" {
			out.Unusable = out.Items[0].Unusable
		}
	}
	return out
}

// signed verifies an event that is the signed body of a webhook.
func (l *Listing) signed(element []byte, event jsonspan.Span, now time.Time, out *Listed) {
	if !event.Present() {
		out.Unusable = "it has no event at " + l.spec.Event
		return
	}
	out.Body = []byte(l.wrapStart + string(event.Of(element)) + l.wrapLast)
	delivery, err := l.provider.Verify(listedRequest(out.Body, now), nil)
	switch {
	case err != nil:
		out.Unusable = err.Error()
	case len(delivery.Items) != 1:
		out.Unusable = "it is not one event"
	default:
		out.Items = delivery.Items
		item := &out.Items[0]
		out.ID, out.Created, out.Unusable = item.EventID, delivery.SignedAt, item.Unusable
	}
}

// listedRequest returns the delivery that would have carried a body.
func listedRequest(body []byte, now time.Time) *Request {
	return &Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ReceivedAt: now}
}

// readListed returns the events of a body whose origin was proved by other means than a signature.
func (p *Provider) readListed(body []byte, now time.Time) []Item {
	return p.extraction.items(listedRequest(body, now), nil, nil, nil)
}

func (l *Listing) nextPage(answer []byte, spans []jsonspan.Span, header http.Header, events []Listed) (string, error) {
	if l.more >= 0 && string(spans[l.more].Of(answer)) != "true" {
		return "", nil
	}
	switch l.spec.Page.Kind {
	case "last":
		if len(events) == 0 {
			return "", nil
		}
		id := events[len(events)-1].ID
		if id == "" {
			return "", errors.New("reading the list: the last element has no id, and the next page begins after it")
		}
		return id, nil
	case "link":
		return linkNext(header), nil
	case "links":
		return linksNext(spans[l.next].Of(answer))
	}
	next, err := text(answer, spans[l.next])
	if err != nil {
		return "", fmt.Errorf("reading the list: the next page: %w", err)
	}
	return next, nil
}

func text(doc []byte, at jsonspan.Span) (string, error) {
	var keep keeper
	value, _, err := scalar(doc, at, &keep)
	return value, err
}

// linksNext returns the address with the relation next in an array of links, or an empty string.
func linksNext(array []byte) (string, error) {
	var links []struct{ Href, Rel string }
	if len(array) == 0 {
		return "", nil
	}
	if err := json.Unmarshal(array, &links); err != nil {
		return "", errors.New("reading the list: the links to other pages are no array of links")
	}
	for _, link := range links {
		if link.Rel == "next" {
			return link.Href, nil
		}
	}
	return "", nil
}

// linkNext returns the address with the relation next in a header Link (RFC 8288), or an empty string.
func linkNext(header http.Header) string {
	for _, line := range header.Values("Link") {
		for part := range strings.SplitSeq(line, ",") {
			address, params, _ := strings.Cut(strings.TrimSpace(part), ">")
			for param := range strings.SplitSeq(params, ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
				if strings.EqualFold(name, "rel") && strings.Trim(value, `"`) == "next" && strings.HasPrefix(address, "<") {
					return address[1:]
				}
			}
		}
	}
	return ""
}
