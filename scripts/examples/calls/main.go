// Command calls shows four callers of Oncegate that never do anything twice, with the standard library.
//
//	calls tool CONVERSATION STEP ARGUMENTS    a tool of an agent, called with the model's JSON
//	calls step RUN STEP TICK PAYLOAD          a step of a workflow
//	calls form SUBMISSION                     a form that somebody submitted
//	calls resend ORDER VERSION                a receipt, once for each version
//
// ONCEGATE is the address, and CALLER_SECRET the secret. The exit code is 0 if it is done, 1 if it failed, 2 if the call
// is wrong, 3 if nobody knows whether it happened, and 75 if there was no answer in time: then make the same call later.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"time"
)

// attempt is the time for one request; more than it asks Oncegate to wait.
const attempt = 30 * time.Second

// Tool carries out what an agent's model asked for. The key is the conversation and the number of the step, which whoever
// runs the agent counts. The model writes the arguments and sees no key: it would write another one each time.
func Tool(ctx context.Context, conversation, step string, arguments json.RawMessage) (*Result, error) {
	return call(ctx, "agents", "charge", arguments, map[string]string{"Conversation-Id": conversation, "Step": step})
}

// Step carries out a step of a workflow. A retry of the engine has the same tick. Only a decision to do the step once more
// has the next one.
func Step(ctx context.Context, run, name, tick string, payload json.RawMessage) (*Result, error) {
	return call(ctx, "workflow", "ship", payload, map[string]string{"Run-Id": run, "Step": name, "Tick": tick})
}

// Form passes on what somebody submitted. The page that shows the form put an id into it, so that a double click and a
// reload are one submission.
func Form(ctx context.Context, submission json.RawMessage) (*Result, error) {
	return call(ctx, "website", "signup", submission, nil)
}

// Resend sends a receipt. The same version is one mail, however often it is asked for. To send another one, a person
// increases it.
func Resend(ctx context.Context, order string, version int) (*Result, error) {
	body, err := json.Marshal(map[string]any{"order": order, "version": version})
	if err != nil {
		return nil, err
	}
	return call(ctx, "shop", "receipt", body, nil)
}

// Result says how a call ended. It is never retried under its key: it stands.
//
//   - done: go on.
//   - failed, partial: the effects say why, and a new decision needs a new key.
//   - indeterminate: it may have happened, so nobody calls again. The same call tells the result once a person has found out.
type Result struct {
	Event  string `json:"event"`
	Status string `json:"status"`
}

var (
	// errRefused means that the call is wrong, and would be wrong again.
	errRefused = errors.New("refused")
	// errUnfinished means that there is no result yet. The same call, made later, gives it and does nothing twice.
	errUnfinished = errors.New("unfinished: make the same call later")
)

// call repeats one call until there is a result. Every request has the same headers and body, and so the same key.
func call(ctx context.Context, source, operation string, body []byte, headers map[string]string) (*Result, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		result, after, err := send(ctx, source, operation, body, headers)
		if result != nil || errors.Is(err, errRefused) {
			return result, err
		}
		// No answer, or half of one: nobody knows what became of the call, so ask again under the same key.
		jittered := pause/2 + rand.N(pause/2) //nolint:gosec // a pause is no secret
		select {
		case <-ctx.Done():
			return nil, errUnfinished
		case <-time.After(max(after, jittered)):
		}
	}
}

// send makes one request. Without a result and without errRefused, the same call is worth repeating after the time that is
// returned.
func send(ctx context.Context, source, operation string, body []byte, headers map[string]string) (*Result, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	address := os.Getenv("ONCEGATE") + "/in/" + source
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body)) //nolint:gosec // the address is the operator's
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errRefused, err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("CALLER_SECRET"))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Oncegate-Operation", operation)
	request.Header.Set("Prefer", "wait=20")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := (&http.Client{}).Do(request) //nolint:gosec // as above
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, 0, err
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 without one
	after := time.Duration(seconds) * time.Second
	var problem struct{ Code, Detail string }
	switch status := response.StatusCode; {
	case status == http.StatusOK:
		var result Result
		if err := json.Unmarshal(content, &result); err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errRefused, err)
		}
		return &result, 0, nil
	case status == http.StatusAccepted: // recorded, and not finished within the wait
		return nil, after, nil
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return nil, after, errors.New(response.Status)
	case json.Unmarshal(content, &problem) == nil && status == http.StatusConflict && problem.Code == "in_flight":
		return nil, after, errors.New(problem.Code)
	}
	// payload_differs: this key stands for another call. Mend what makes the key; never make one up.
	return nil, 0, fmt.Errorf("%w: %s %s %s", errRefused, response.Status, problem.Code, problem.Detail)
}

func main() {
	patience, err := time.ParseDuration(cmp.Or(os.Getenv("PATIENCE"), "120") + "s")
	if err != nil {
		fmt.Fprintln(os.Stderr, "calls: PATIENCE is a number of seconds:", err)
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := choose(ctx, os.Args[1:])
	switch {
	case errors.Is(err, errUnfinished):
		fmt.Println(err)
		os.Exit(75) //nolint:gocritic // the context has ended
	case err != nil:
		fmt.Println(err)
		os.Exit(2)
	}
	fmt.Println(result.Status, result.Event)
	switch result.Status {
	case "done":
	case "indeterminate":
		os.Exit(3)
	default:
		os.Exit(1)
	}
}

// choose makes the call that the arguments name.
func choose(ctx context.Context, args []string) (*Result, error) {
	given := append(args, make([]string, 5)...)
	switch text := func(i int) json.RawMessage { return json.RawMessage(given[i]) }; given[0] {
	case "tool":
		return Tool(ctx, given[1], given[2], text(3))
	case "step":
		return Step(ctx, given[1], given[2], given[3], text(4))
	case "form":
		return Form(ctx, text(1))
	case "resend":
		version, err := strconv.Atoi(given[2])
		if err != nil {
			return nil, fmt.Errorf("%w: the version is a number: %w", errRefused, err)
		}
		return Resend(ctx, given[1], version)
	}
	return nil, fmt.Errorf("%w: %q is none of tool, step, form and resend", errRefused, given[0])
}
