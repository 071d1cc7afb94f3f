package config

import (
	"errors"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// Notifications configures what operators are told without asking.
type Notifications struct {
	// Source is the source that the messages are emitted to. Empty sends none.
	Source string
	// Kinds are the kinds of things that operators are told about. Empty means every kind but planned replays.
	Kinds []attention.Kind
	// Fold is how long a message waits for others. Zero means 1m.
	Fold time.Duration
	// Settle is how long a thing must have been gone before it is over. Zero means 5m.
	Settle time.Duration
	// Digest is the time of the daily digest, as hours and minutes in UTC. Empty sends none.
	Digest string
}

// digestForm is how the time of the digest is written.
const digestForm = "15:04"

// DigestAt returns the time of the daily digest since midnight in UTC, or nil if there is none.
func (n *Notifications) DigestAt() *time.Duration {
	at, err := time.Parse(digestForm, n.Digest)
	if err != nil {
		return nil
	}
	since := time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	return &since
}

func (n *Notifications) keys() []Key {
	return []Key{
		value("source", &n.Source, words(checkedName), "none", "The source that the messages are emitted to. It needs `emit: true`, and must belong to no tenant, because the messages name things of all tenants. Without it there are no notifications."),
		list("kinds", &n.Kinds, oneOf(attention.Kinds()...), "every kind but `plan`", "The kinds of things that operators are told about."),
		value("fold", &n.Fold, duration, "`1m`", "How long a message waits for more after its first thing was seen, so that one cause makes one message."),
		value("settle", &n.Settle, duration, "`5m`", "How long a thing must have been gone before operators are told that it is over."),
		value("digest", &n.Digest, form[string]{digestTime, nil, exactly(jsonSchema{"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"})}, "none", "When the daily digest, a message with everything that waits, is sent, such as `\"07:30\"` in UTC. It also comes if nothing waits."),
	}
}

func digestTime(s string) (string, error) {
	if _, err := time.Parse(digestForm, s); err != nil || len(s) != len(digestForm) {
		return "", errors.New(`not a time of the day such as "07:30"; it is in UTC`)
	}
	return s, nil
}

// checkNotifications checks that the source of the messages takes them, and that routes carry them on.
func (r *reader) checkNotifications(cfg *Config) {
	n := r.root.Member("notifications")
	if n == nil {
		return
	}
	name := cfg.Notifications.Source
	if name == "" {
		if n.Sound() {
			r.warnings = append(r.warnings, "notifications: nobody is told anything, because there is no source; name the source that the messages are emitted to")
		}
		return
	}
	at := n.Below("source")
	i := slices.IndexFunc(cfg.Sources, func(s *Source) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range cfg.Sources {
			if s.Emit {
				names = append(names, s.Name)
			}
		}
		at.Fail("there is no source %s; %ssources with emit: true are %s", r.report.Quote(name), yamltree.DidYouMean(names, name), sortedList(names))
		return
	}
	s := cfg.Sources[i]
	switch {
	case !s.Emit:
		at.Fail("source %s is not open to it: set sources.%s.emit to true", name, name)
	case s.Tenant != "":
		at.Fail("source %s belongs to tenant %s, and the messages name things of all tenants: use a source without a tenant", name, s.Tenant)
	case s.Shadow:
		at.Fail("source %s is in shadow mode, so no message is sent: remove sources.%s.shadow", name, name)
	case len(s.Routes) == 0:
		at.Fail("source %s has no routes, so no message arrives anywhere", name)
	}
}
