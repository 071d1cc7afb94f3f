package app

import (
	"strings"
	"time"
	"unicode"

	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// address records where the effect was sent and where it would go, if its address is computed from the event. It
// returns the description was, with the address of the effect instead of the route's.
func (j *Judge) address(event *judgedEvent, e *replay.RecordedEffect, route *judgedRoute, was routeDescription, p *jobs.Preview, d *diff) routeDescription {
	fixed, err := effect.ReadRendered(e.Rendered)
	if err != nil || fixed.Address == "" {
		return was
	}
	d.Recorded.Address, d.Recorded.AddressSHA256 = route.shownAddress(fixed.Address)
	if p.Request.Address != fixed.Address {
		was.Address, was.AddressSHA256 = d.Recorded.Address, d.Recorded.AddressSHA256
		return was
	}
	was.Address, was.AddressSHA256 = route.today.Address, route.today.AddressSHA256
	if fresh, ok := j.freshAddress(event, e); ok && fresh != fixed.Address {
		shown, _ := route.shownAddress(fresh)
		d.Unused = append(d.Unused, replay.Change{Path: "address", Before: d.Recorded.Address, After: shown})
		_ = d.why("it goes to the address that was stored for its first attempt; today's, which differs, needs a new key")
	}
	return was
}

// freshAddress returns the address that today's configuration would compute if none were stored.
func (j *Judge) freshAddress(event *judgedEvent, e *replay.RecordedEffect) (string, bool) {
	if event.NewKey {
		return "", false
	}
	again := claimOf(event, e, j.cfg.Now())
	again.Rendered, again.UnknownSince = nil, time.Time{}
	fresh := j.previewer.Preview(again)
	return fresh.Request.Address, fresh.State == "" && fresh.Items <= 1
}

// shownAddress returns an address that was computed from an event, in the form that `config print` uses: without
// parts that may be a credential. If an expression in it names a redacted member, only the host is shown.
func (r *judgedRoute) shownAddress(address string) (shown, hash string) {
	host, hash := addressOf(address)
	for text := range r.Target.Values {
		words := strings.FieldsFunc(text, func(c rune) bool {
			return c != '.' && c != '_' && c != '-' && !unicode.IsLetter(c) && !unicode.IsDigit(c)
		})
		for _, word := range words {
			if r.source.redact.hides(strings.TrimPrefix(word, "body.")) {
				return host, hash
			}
		}
	}
	return short([]byte(config.RedactURL(address))), hash
}
