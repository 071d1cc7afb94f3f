package jobs_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// news is the body of a batch.
type news struct {
	Campaign string   `json:"campaign"`
	To       []string `json:"to"`
}

// batch records an event that mails a campaign to some recipients.
func (b *bundle) batch(campaign string, to ...string) inbox.ID {
	b.tb.Helper()
	id := b.admit(once, 1)[0]
	body, err := json.Marshal(news{campaign, to})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.exec(`INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{}', $2)`, id, body)
	b.exec(`UPDATE inbox_event SET body_id = $1, body_offset = 0, body_length = $2 WHERE id = $1`, id, len(body))
	return id
}

// campaigns is the route of the batches; its key is the campaign, unless keyed is false.
func (b *bundle) campaigns(keyed bool) map[int32]jobs.Route {
	b.tb.Helper()
	routes := b.listed("body.to", nil)
	if !keyed {
		return routes
	}
	for id, r := range routes {
		r.Key = &expression.Recipe{Version: 1, Fields: []*expression.Program{compile(b.tb, "body.campaign", expression.Value)}}
		routes[id] = r
	}
	return routes
}

// post counts what each recipient was sent. It is asked by the text of the message.
type post struct {
	mu     sync.Mutex
	sent   map[string]int
	answer func(to string) effect.Result
}

func (p *post) sink() *sink {
	return &sink{answer: func(_ context.Context, c *effect.Call) effect.Result {
		to, _, _ := strings.Cut(strings.TrimPrefix(string(c.Rendered), "to "), " as ")
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.answer != nil {
			if r := p.answer(to); r.Outcome != effect.Done {
				return r
			}
		}
		if p.sent == nil {
			p.sent = map[string]int{}
		}
		p.sent[to]++
		return effect.Result{Outcome: effect.Done}
	}}
}

func (p *post) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.sent)
}

func (b *bundle) nothingUnderWay() {
	b.tb.Helper()
	b.within(time.Minute, "nothing to be under way", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state IN ('pending', 'claimed', 'retry', 'held')`) == 0
	})
}

func wantSent(tb testing.TB, p *post, want map[string]int) {
	tb.Helper()
	if got := p.counts(); !maps.Equal(got, want) {
		tb.Errorf("sent %v, want %v", got, want)
	}
}
