package calls

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Evidence is what the callers were answered, what the targets did, and what the database says at
// the end.
type Evidence struct {
	// Counts counts what happened, by its name.
	Counts map[string]int

	// Calls has the calls that must be accepted, by credential, operation and key.
	Calls map[string]*Told

	// Differing has the answers to payloads that differ from the first payload of the same key.
	Differing []Refusal

	// Refused has the intents of calls that were refused and must not have been recorded.
	Refused map[string]bool

	// Works counts what each sink has done, by intent.
	Works map[Sink]map[string]int

	// Operations are the events in the database, by their key.
	Operations map[string]Operation
}

// Told is what the callers of one call were answered.
type Told struct {
	Intent string

	// Callers is how many called, and Documents counts the results that they got.
	Callers   int
	Documents map[string]int

	// Events counts the ids that the answers named.
	Events map[string]int

	// Other has final answers that are not results.
	Other []string
}

// Refusal is the answer to a differing repeat.
type Refusal struct {
	Key    string
	Answer Answer
}

// Operation is an event as the database has it.
type Operation struct {
	ID string

	// States has the states of its effects, and Reasons the reasons for them, by route.
	States, Reasons map[Sink]string

	// Replayed means that the operator has replayed one of its effects, so that its result may be
	// different.
	Replayed bool
}

func newEvidence() *Evidence {
	return &Evidence{Counts: map[string]int{}, Calls: map[string]*Told{}, Refused: map[string]bool{}, Operations: map[string]Operation{}}
}

// name returns the name of a call in the evidence, which is its key in the database.
func name(who *credential, k *call) string { return who.name + ":" + k.operation + ":" + k.key }

// expect records that callers are going to make a call that must be accepted.
func (c *Campaign) expect(who *credential, k *call, callers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told(who, k).Callers += callers
}

func (c *Campaign) told(who *credential, k *call) *Told {
	t := c.evidence.Calls[name(who, k)]
	if t == nil {
		t = &Told{Intent: k.intent, Documents: map[string]int{}, Events: map[string]int{}}
		c.evidence.Calls[name(who, k)] = t
	}
	return t
}

// answered records the final answer to a call that must be accepted.
func (c *Campaign) answered(who *credential, k *call, a *Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.told(who, k)
	if a.Event != "" {
		t.Events[a.Event]++
	}
	if a.Status != 200 {
		t.Other = append(t.Other, fmt.Sprintf("%d %s", a.Status, a.Document))
		return
	}
	t.Documents[a.Document]++
	c.evidence.Counts["result: "+a.Result]++
}

// flooded records the answer to a call beyond the quota.
func (c *Campaign) flooded(k *call, a *Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Status == 429 {
		c.evidence.Refused[k.intent] = true
		c.evidence.Counts["refused by the quota"]++
	}
}

// differed records the answer to a payload that differs.
func (c *Campaign) differed(who *credential, k *call, a *Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evidence.Differing = append(c.evidence.Differing, Refusal{Key: name(who, k), Answer: *a})
}

const readOperations = `
SELECT v.event_id, v.id::text, r.name, e.state, coalesce(e.reason, ''), e.version > 1
FROM inbox_event v JOIN effect e ON e.event_id = v.id JOIN route r ON r.id = e.route_id`

// read waits until nothing is under way and reads the database and the sinks.
func (c *Campaign) read(ctx context.Context) error {
	if _, err := rig.Rest(ctx, c.DB, answerWithin); err != nil { // the check reports unfinished effects
		return err
	}
	rows, err := c.DB.Query(ctx, readOperations)
	if err != nil {
		return fmt.Errorf("reading the operations: %w", err)
	}
	var key, id, state, reason string
	var route Sink
	var replayed bool
	_, err = pgx.ForEachRow(rows, []any{&key, &id, &route, &state, &reason, &replayed}, func() error {
		o, ok := c.evidence.Operations[key]
		if !ok {
			o = Operation{ID: id, States: map[Sink]string{}, Reasons: map[Sink]string{}}
		}
		o.States[route], o.Reasons[route], o.Replayed = state, reason, o.Replayed || replayed
		c.evidence.Operations[key] = o
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the operations: %w", err)
	}
	rig.Pause(ctx, 50*time.Millisecond) // a request that arrives late would be one too many
	c.evidence.Works = c.sinks.done()
	return nil
}
