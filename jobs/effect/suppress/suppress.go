// Package suppress suppresses the addresses that an event names, because mail to them bounced or because they
// complained or unsubscribed. [New] makes a [Suppress], which acts inside the database, in the transaction that records
// its outcome. It does not know where the addresses are stored.
package suppress

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/pgtext"
	"github.com/oncegate/oncegate/jobs/effect"
)

// MaxAddresses is the largest number of addresses that one event may name.
const MaxAddresses = 1000

// Entry is an address to suppress.
type Entry struct {
	Address string
	// Reason is one of a closed set, which Add checks.
	Reason string
	// Event is our id of the event that named the address.
	Event string
	// Expires is when the suppression ends. Zero is never.
	Expires time.Time
}

// Config configures a [Suppress]. All but Keep are required.
type Config struct {
	// Addresses returns the addresses that an event names. If there are none, there is nothing to do. Its error names
	// an expression and never quotes the event.
	Addresses func(*effect.Call) ([]string, error)

	// Reason returns why they are suppressed. Its error must not quote the event either.
	Reason func(*effect.Call) (string, error)

	// Keep is how long the addresses are suppressed, from the receipt of the event. 0 is forever.
	Keep time.Duration

	// Add suppresses addresses in a transaction. It returns [ErrEntry] for an entry that can never be suppressed, and a
	// database error otherwise.
	Add func(ctx context.Context, tx pgx.Tx, entries []Entry) error
}

// ErrEntry is in the error of Config.Add for an invalid address or an unknown reason. The error quotes neither.
var ErrEntry = errors.New("cannot be suppressed")

// Suppress is the kind of effect that suppresses addresses.
type Suppress struct{ cfg Config }

var (
	_ effect.Transactional = (*Suppress)(nil)
	_ effect.Previewer     = (*Suppress)(nil)
)

// New makes a Suppress.
func New(cfg Config) (*Suppress, error) {
	if cfg.Addresses == nil || cfg.Reason == nil || cfg.Add == nil || cfg.Keep < 0 {
		return nil, errors.New("suppress: addresses, a reason and where they are kept are required")
	}
	return &Suppress{cfg: cfg}, nil
}

// Act implements [effect.Transactional].
func (s *Suppress) Act(ctx context.Context, tx pgx.Tx, call *effect.Call) effect.Result {
	entries, failure := s.entries(call)
	if failure != nil {
		return *failure
	}
	if len(entries) == 0 {
		return effect.Result{Outcome: effect.Done, Stored: []byte(`{"addresses":0}`)}
	}
	err := s.cfg.Add(ctx, tx, entries)
	switch {
	case errors.Is(err, ErrEntry):
		return effect.Result{Outcome: effect.Dead, Reason: reasons.Mapping, Excerpt: pgtext.Clean(err.Error(), effect.MaxExcerpt)}
	case err != nil:
		return effect.SQLFailure(err)
	}
	return effect.Result{Outcome: effect.Done, Stored: fmt.Appendf(nil, `{"addresses":%d}`, len(entries))}
}

// Preview implements [effect.Previewer]. The body is the event's, because the addresses are read from it.
func (s *Suppress) Preview(call *effect.Call) (effect.Request, *effect.Result) {
	if _, failure := s.entries(call); failure != nil {
		return effect.Request{}, failure
	}
	return effect.Request{Body: call.Event.Body}, nil
}

func (s *Suppress) entries(call *effect.Call) ([]Entry, *effect.Result) {
	addresses, err := s.cfg.Addresses(call)
	if err != nil {
		return nil, mapping("address: " + err.Error())
	}
	if len(addresses) > MaxAddresses {
		return nil, mapping(fmt.Sprintf("address: the event names more than %d", MaxAddresses))
	}
	reason, err := s.cfg.Reason(call)
	if err != nil {
		return nil, mapping("reason: " + err.Error())
	}
	var expires time.Time
	if s.cfg.Keep > 0 {
		expires = call.Event.ReceivedAt.Add(s.cfg.Keep)
	}
	out := make([]Entry, len(addresses))
	for i, address := range addresses {
		out[i] = Entry{Address: address, Reason: reason, Event: call.Event.ID, Expires: expires}
	}
	return out, nil
}

func mapping(text string) *effect.Result {
	return &effect.Result{Outcome: effect.Dead, Reason: reasons.Mapping, Excerpt: pgtext.Clean(text, effect.MaxExcerpt)}
}
