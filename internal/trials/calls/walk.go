package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// actors is how many act at the same time.
const actors = 6

// made is a call that an actor has made and that has an answer.
type made struct {
	call   *call
	answer *Answer
	amount int

	mu       sync.Mutex
	followed bool
}

// walk is a random sequence of what callers and operators do.
type walk struct {
	*Campaign

	steps atomic.Int64

	mu   sync.Mutex
	made []*made
}

// walk lets the actors make the steps, while nodes are killed one after the other and an operator replays the dead
// effects.
func (c *Campaign) walk(ctx context.Context) error {
	if c.options.Steps == 0 {
		return nil
	}
	w := &walk{Campaign: c}
	w.steps.Store(int64(c.options.Steps))
	disturbing, stop := context.WithCancel(ctx)
	others, disturbing := errgroup.WithContext(disturbing)
	others.Go(func() error { return ended(disturbing, w.killNodes(disturbing)) })
	others.Go(func() error { return ended(disturbing, w.replay(disturbing)) })
	group, acting := errgroup.WithContext(ctx)
	for actor := range actors {
		group.Go(func() error { return w.act(acting, actor, c.random(actor)) })
	}
	err := group.Wait()
	stop()
	if err := errors.Join(err, others.Wait()); err != nil {
		return err
	}
	return w.repeatAll(ctx)
}

// ended drops the error of a function that was stopped.
func ended(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

func (w *walk) act(ctx context.Context, actor int, random *rand.Rand) error {
	for {
		left := w.steps.Add(-1)
		if left < 0 {
			return nil
		}
		step := w.newCall
		switch n := random.IntN(100); {
		case n < 20:
			step = w.repeat
		case n < 35:
			step = w.differ
		case n < 43:
			step = w.followUp
		case n < 48:
			step = w.replace
		case n < 53:
			step = w.confused
		case n < 68:
			step = w.stepOfRun
		}
		if err := step(ctx, actor, random); err != nil {
			return fmt.Errorf("step %d: %w", left, err)
		}
		if left%100 == 0 {
			w.Progress("%d steps left", left)
		}
	}
}

// faults decides what the sinks do with an intent.
func (w *walk) faults(intent string, random *rand.Rand) {
	atOnce := [][]Fault{nil, nil, nil, {Refuse}, {Refuse}, {Refuse, Refuse}, {Busy}, {HangUp}, {Silence}}
	w.sinks.plan(Once, intent, atOnce[random.IntN(len(atOnce))]...)
	var atSame []Fault
	for random.IntN(3) == 0 {
		atSame = append(atSame, []Fault{Busy, HangUp, Silence}[random.IntN(3)])
	}
	w.sinks.plan(Same, intent, atSame...)
}

// newCall makes a call that no actor has made before.
func (w *walk) newCall(ctx context.Context, actor int, random *rand.Rand) error {
	intent := fmt.Sprintf("walk-%d-%016x", actor, random.Uint64())
	w.faults(intent, random)
	m := &made{amount: 1 + random.IntN(1000)}
	m.call = &call{operation: "charge", key: "key-of-" + intent, intent: intent, body: body(intent, strconv.Itoa(m.amount), "first")}
	return w.take(ctx, m, "new call")
}

// take makes a call that must be accepted, and remembers it.
func (w *walk) take(ctx context.Context, m *made, what string) (err error) {
	if m.answer, err = w.make(ctx, w.planner, m.call); err != nil {
		return err
	}
	switch m.answer.Code {
	case parentUnsettled: // a replay made it indeterminate, and the key was not spent
		w.count(what + " of what only a person can settle")
		return nil
	case alreadyFollowed, suspectedRepeat: // the key was not spent
		w.count(what + " refused: " + m.answer.Code)
		return nil
	}
	w.expect(w.planner, m.call, 1)
	w.answered(w.planner, m.call, m.answer)
	w.count(what)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made = append(w.made, m)
	return nil
}

// any draws a call that was made; nil if none was.
func (w *walk) any(random *rand.Rand) *made {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.made) == 0 {
		return nil
	}
	return w.made[random.IntN(len(w.made))]
}

// body returns the payload of an intent. The amount is written unchanged.
func body(intent, amount, note string) []byte {
	return fmt.Appendf(nil, `{"intent": %q, "amount": %s, "account": "DE 17", "note": %q}`, intent, amount, note)
}

// reworded is the same payload in other words: another order of members, another spelling of the number, another text
// where it does not matter, spaces around strings.
func reworded(intent string, amount int, random *rand.Rand) []byte {
	spelling := []string{strconv.Itoa(amount), strconv.Itoa(amount) + ".00", strconv.Itoa(amount) + "e0", strconv.Itoa(amount*10) + "E-1"}[random.IntN(4)]
	members := []string{
		fmt.Sprintf(`"intent":%q`, intent), `"amount":` + spelling, `"account":" DE 17 "`, fmt.Sprintf(`"note":"at %d"`, random.Uint64()),
	}
	random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return []byte("{" + strings.Join(members, ", ") + "}")
}

// repeat makes a call again, in other words.
func (w *walk) repeat(ctx context.Context, actor int, random *rand.Rand) error {
	m := w.any(random)
	if m == nil {
		return w.newCall(ctx, actor, random)
	}
	again := *m.call
	again.body = reworded(again.intent, m.amount, random)
	return w.again(ctx, &again)
}

func (w *walk) again(ctx context.Context, k *call) error {
	w.expect(w.planner, k, 1)
	a, err := w.make(ctx, w.planner, k)
	if err != nil {
		return err
	}
	w.answered(w.planner, k, a)
	w.count("repeat")
	return nil
}

// differ makes a call again with another amount.
func (w *walk) differ(ctx context.Context, actor int, random *rand.Rand) error {
	m := w.any(random)
	if m == nil {
		return w.newCall(ctx, actor, random)
	}
	other := *m.call
	other.body = body(other.intent, strconv.Itoa(m.amount+1), "first")
	a, err := w.make(ctx, w.planner, &other)
	if err != nil {
		return err
	}
	w.differed(w.planner, &other, a)
	w.count("another payload under the same key")
	return nil
}

// followUp calls again, under a new key, for an intent that failed in part or that is done. What its parent has settled
// must not happen again.
func (w *walk) followUp(ctx context.Context, actor int, random *rand.Rand) error {
	m := w.any(random)
	if m == nil || m.call.operation != "charge" || m.answer.Result == "indeterminate" || m.answer.Result == "" {
		return w.newCall(ctx, actor, random)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.followed {
		return nil // its child may be followed
	}
	m.followed = true
	var children []*made
	for _, mark := range []string{"+", "-"}[:1+random.IntN(2)] {
		child := &made{amount: m.amount}
		child.call = &call{
			operation: "charge", key: m.call.key + mark, intent: m.call.intent, body: m.call.body,
			header: http.Header{"Oncegate-Resumes": {m.call.key}},
		}
		children = append(children, child)
	}
	return w.race(ctx, children, "follow-up")
}

// race makes calls at the same moment of which one is taken.
func (w *walk) race(ctx context.Context, all []*made, what string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range all {
		group.Go(func() error { return w.take(ctx, m, what) })
	}
	return group.Wait()
}

// replace has a new intent done in the place of a call that is settled. Two callers have the same idea.
func (w *walk) replace(ctx context.Context, actor int, random *rand.Rand) error {
	m := w.any(random)
	if m == nil || m.call.operation != "charge" || m.answer.Result == "indeterminate" || m.answer.Result == "" {
		return w.newCall(ctx, actor, random)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.followed {
		return nil
	}
	m.followed = true
	intent := fmt.Sprintf("instead-%d-%016x", actor, random.Uint64())
	w.faults(intent, random)
	var children []*made
	for _, mark := range []string{"a", "b"}[:1+random.IntN(2)] {
		child := &made{amount: 1 + m.amount}
		child.call = &call{
			operation: "charge", key: "key-of-" + intent + mark, intent: intent, body: body(intent, strconv.Itoa(child.amount), "first"),
			header: http.Header{"Oncegate-Instead-Of": {m.call.key}},
		}
		children = append(children, child)
	}
	return w.race(ctx, children, "call instead of another")
}

// confused makes a call again under an invented key, and names no earlier call. The effect must not happen again.
func (w *walk) confused(ctx context.Context, actor int, random *rand.Rand) error {
	m := w.any(random)
	if m == nil || m.call.operation != "charge" {
		return w.newCall(ctx, actor, random)
	}
	again := &made{amount: m.amount}
	again.call = &call{operation: "charge", key: fmt.Sprintf("another-key-of-%s-%016x", m.call.intent, random.Uint64()), intent: m.call.intent, body: reworded(m.call.intent, m.amount, random)}
	return w.take(ctx, again, "the same call under an invented key")
}

// stepOfRun makes a step of a run: within a session, within another session of the same run, or with the headers that the key is made of.
func (w *walk) stepOfRun(ctx context.Context, actor int, random *rand.Rand) error {
	run, step, tick := fmt.Sprintf("run:%d/%d", actor, random.IntN(5)), strconv.Itoa(random.IntN(10)), strconv.Itoa(random.IntN(2))
	intent := "step " + run + " " + step + " " + tick
	header := http.Header{"Oncegate-Step": {step}, "Oncegate-Tick": {tick}}
	way := "step with headers"
	if random.IntN(2) == 0 {
		token, err := w.session(ctx, run)
		if err != nil {
			return err
		}
		header.Set("Authorization", "Bearer "+token)
		way = "step in a session"
	} else {
		header.Set("Run-Id", run)
	}
	m := &made{amount: 7, call: &call{
		operation: "step", key: escape(run) + ":" + step + ":" + tick, intent: intent, body: body(intent, "7", way), header: header,
	}}
	m.call.given = true
	return w.take(ctx, m, way)
}

// escape escapes a part of a key so that it contains no colon.
func escape(part string) string {
	var out []byte
	for _, b := range []byte(part) {
		if b == ':' || b == '%' || b <= 0x20 || b >= 0x7f {
			out = fmt.Appendf(out, "%%%02x", b)
			continue
		}
		out = append(out, b)
	}
	return string(out)
}

// session makes a session for a run. Two of one run are the same run.
func (w *walk) session(ctx context.Context, run string) (token string, err error) {
	request, err := json.Marshal(map[string]any{"run": run, "operations": []string{"step"}})
	if err != nil {
		return "", fmt.Errorf("asking for a session: %w", err)
	}
	a, err := w.make(ctx, w.planner, &call{path: "/sessions", body: request})
	if err != nil {
		return "", err
	}
	var made struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal([]byte(a.Document), &made); err != nil || made.Token == "" {
		return "", fmt.Errorf("asking for a session of run %s: %d %s", run, a.Status, a.Document)
	}
	w.count("session")
	return made.Token, nil
}

// killNodes kills the nodes in turn, and starts each again with rotated secrets.
func (w *walk) killNodes(ctx context.Context) error {
	for i := 0; rig.Pause(ctx, 2*time.Second); i++ {
		// A node that is starting when the walk ends is needed by what comes after.
		if err := w.restart(context.WithoutCancel(ctx), w.nodes[i%len(w.nodes)]); err != nil {
			return err
		}
	}
	return nil
}

// replay plans and runs the replay of everything that is dead, again and again. It finishes the replay that it has begun when the walk
// ends, so that the evidence is not read in the middle of it.
func (w *walk) replay(walking context.Context) error {
	ctx := context.WithoutCancel(walking)
	for rig.Pause(walking, time.Second) {
		var plan struct {
			ID      string `json:"id"`
			Digest  string `json:"digest"`
			Summary struct {
				ToDo int `json:"to_do"`
			} `json:"summary"`
		}
		out, err := w.command(ctx, "replay", "plan", "--source", "agents", "--output", "json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(out.Stdout), &plan); err != nil || out.ExitCode != 0 {
			if out.ExitCode != 0 {
				w.count("replay refused")
				continue // there is nothing to replay
			}
			return fmt.Errorf("planning a replay: %w: %s", err, out.Stdout)
		}
		out, err = w.command(ctx, "replay", "run", plan.ID, "--digest", plan.Digest, "--reason", "the target takes it now")
		if err != nil {
			return err
		}
		w.count("replay, exit status " + strconv.Itoa(out.ExitCode))
	}
	return nil
}

// command runs a command as an operator does.
func (w *walk) command(ctx context.Context, args ...string) (lab.CommandResult, error) {
	return w.RunCommand(ctx, time.Minute, append(w.secrets(), "ONCEGATE_ACTOR=operator"), args...)
}

// repeatAll makes every call once more when nothing is disturbed any longer.
func (w *walk) repeatAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(actors)
	for _, m := range w.made {
		group.Go(func() error { return w.again(ctx, m.call) })
	}
	return group.Wait()
}
