package read

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ErrKeyReference is returned for a text that is neither an idempotency key nor a Message-ID that Oncegate makes.
var ErrKeyReference = errors.New("neither an idempotency key of Oncegate, which is og1_ or og2_ and at least 43 characters, " +
	"nor a Message-ID that Oncegate made, which is 32 hexadecimal digits in lower case, @ and a domain")

var (
	idempotencyKeyForm = regexp.MustCompile(`^og[12]_[0-9A-Za-z_-]{43}(~v[0-9]+)?(/[0-9A-Za-z_-]{22})?$`)
	messageIDForm      = regexp.MustCompile(`^([0-9a-f]{32})@[^<>@\s]+$`)
)

// keyDigest returns the digest by which attempts are found: of an idempotency key or of a Message-ID, with or without
// its angle brackets. It ignores the domain of a Message-ID.
func keyDigest(ref string) (digest []byte, ok bool) {
	ref = strings.TrimSpace(ref)
	if idempotencyKeyForm.MatchString(ref) {
		sum := sha256.Sum256([]byte(ref))
		return sum[:16], true
	}
	id, closed := strings.CutSuffix(ref, ">")
	id, opened := strings.CutPrefix(id, "<")
	found := messageIDForm.FindStringSubmatch(id)
	if found == nil || opened != closed {
		return nil, false
	}
	digest, err := hex.DecodeString(found[1])
	return digest, err == nil
}

// IsKeyReference reports whether a text has the form of an idempotency key or of a Message-ID that Oncegate makes.
func IsKeyReference(ref string) bool {
	_, ok := keyDigest(ref)
	return ok
}

// WhyNoKey says why no effect was found by a reference that is, or seems to be meant as, a key or a Message-ID; empty for others.
func WhyNoKey(ref string) string {
	switch {
	case IsKeyReference(ref):
		return "no attempt was made under this key, the first one has not ended yet, or its effect was pruned or its event erased"
	case strings.HasPrefix(ref, "og1_") || strings.HasPrefix(ref, "og2_") || strings.Contains(ref, "@"):
		return "it is " + ErrKeyReference.Error()
	}
	return ""
}

// attemptsOf adds a query for the newest effects with an attempt under a key to a statement; each effect is returned
// once. The index has this order, so that no more than limit effects are read, however many were sent under the key.
func attemptsOf(s *row.Statement, digest []byte, p row.Predicates, limit int) {
	s.Add(`SELECT DISTINCT a.effect_id FROM effect_attempt a WHERE a.key_digest = ?`, digest).And(p).
		Add(` ORDER BY a.effect_id DESC LIMIT ?`, limit)
}

// findByKey returns the effects with an attempt under a key, newest first. It reads at most maxInspected effects. more
// says that a tenant may have others, which were not read.
func (l *Lister) findByKey(ctx context.Context, digest []byte) (found []foundReference, more bool, err error) {
	var s row.Statement
	s.Add(effectReferences + ` WHERE e.id = ANY (ARRAY(`)
	attemptsOf(&s, digest, nil, maxInspected)
	s.Add(`)) ORDER BY e.id DESC`)
	rows, err := collect(ctx, l, &s, scanReference)
	return l.ours(rows), l.tenant != "" && len(rows) == maxInspected, err
}

// keyedEffects lists effects by a key. narrow contains the other conditions. The index of keys serves each window, and
// a page without other conditions.
func (l *Lister) keyedEffects(ctx context.Context, w listWalk[EffectRow, inbox.ID], f EffectFilter, narrow row.Predicates) (page Page[EffectRow], err error) {
	digest, ok := keyDigest(f.Key)
	if !ok {
		return page, fmt.Errorf("key %q: it is %w", f.Key, ErrKeyReference)
	}
	since := idSince(f.Since)
	between := func(first, before inbox.ID) (p row.Predicates) {
		p.AddIf(!first.IsZero(), `a.effect_id >= ?`, first)
		p.AddIf(!before.IsZero(), `a.effect_id < ?`, before)
		return p
	}
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]EffectRow, error) {
		within := limit
		if len(narrow) > 0 {
			within = maxWindow
		}
		return l.readEffects(ctx, row.Is(`effect e`), narrow.With(func(s *row.Statement) {
			s.Add(`e.id = ANY (ARRAY(`)
			attemptsOf(s, digest, between(later(since, to), from), within)
			s.Add(`))`)
		}), limit)
	}
	if len(narrow) > 0 {
		w.edge = func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
			var s row.Statement
			s.Add(`SELECT k.effect_id FROM (`)
			attemptsOf(&s, digest, between(since, from), rows)
			s.Add(`) k ORDER BY k.effect_id DESC OFFSET ? - 1 LIMIT 1`, rows)
			return l.edge(ctx, &s)
		}
	}
	return w.page(ctx, l.search())
}
