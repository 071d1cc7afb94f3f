// Exercises the API of a running server through the client that oapi-codegen generates with its defaults. The server holds
// what the test has filled it with.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"oncegate.example/client/api"
)

func main() {
	if err := exercise(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func exercise(ctx context.Context) error {
	client, err := api.NewClientWithResponses(os.Getenv("ONCEGATE_SERVER")+"/api/v1", api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("ADMIN_TOKEN"))
		return nil
	}))
	if err != nil {
		return err
	}
	events, err := listEvents(ctx, client)
	if err != nil {
		return err
	}
	if err := showEffects(ctx, client); err != nil {
		return err
	}
	waiting, err := client.ShowAttentionWithResponse(ctx, &api.ShowAttentionParams{})
	if err != nil || waiting.JSON200 == nil || len(waiting.JSON200.Data) == 0 {
		return fmt.Errorf("nothing waits: %w, %s", err, waiting.Body)
	}
	if err := suppress(ctx, client); err != nil {
		return err
	}
	missing, err := client.ShowEventWithResponse(ctx, "shop/nothing", &api.ShowEventParams{})
	if err != nil || missing.ApplicationproblemJSONDefault == nil || missing.StatusCode() != http.StatusNotFound {
		return fmt.Errorf("an event that does not exist is no problem document: %w, %s", err, missing.Body)
	}
	fmt.Printf("%d events\n", events)
	return nil
}

// listEvents reads the list of events to its end, in pages of two.
func listEvents(ctx context.Context, client *api.ClientWithResponses) (n int, err error) {
	two, params := int64(2), &api.ListEventsParams{}
	params.Limit = &two
	for {
		page, err := client.ListEventsWithResponse(ctx, params)
		if err != nil || page.JSON200 == nil {
			return 0, fmt.Errorf("listing events: %w, %s", err, page.Body)
		}
		n += len(page.JSON200.Data)
		if !page.JSON200.HasMore {
			return n, nil
		}
		params.After = page.JSON200.Next
	}
}

// showEffects reads an event, whose effects are an array.
func showEffects(ctx context.Context, client *api.ClientWithResponses) error {
	shown, err := client.ShowEventWithResponse(ctx, "shop/evt_paid", &api.ShowEventParams{})
	if err != nil || shown.JSON200 == nil {
		return fmt.Errorf("showing an event: %w, %s", err, shown.Body)
	}
	for _, effect := range shown.JSON200.Effects {
		if effect.Event != shown.JSON200.Id {
			return fmt.Errorf("effect %s is of event %s, want %s", effect.Id, effect.Event, shown.JSON200.Id)
		}
	}
	if len(shown.JSON200.Effects) == 0 || len(shown.JSON200.EffectStates) == 0 {
		return fmt.Errorf("the event has no effects: %s", shown.Body)
	}
	return nil
}

// suppress sends the same request twice under one key.
func suppress(ctx context.Context, client *api.ClientWithResponses) error {
	key := "once"
	for _, replayed := range []string{"", "true"} {
		added, err := client.AddSuppressionWithResponse(ctx, &api.AddSuppressionParams{IdempotencyKey: &key}, api.AddSuppressionBody{Address: "go@example.com", Reason: "the generated client asked for it"})
		if err != nil || added.JSON200 == nil || added.HTTPResponse.Header.Get("Idempotent-Replayed") != replayed {
			return fmt.Errorf("suppressing an address: %w, %s", err, added.Body)
		}
	}
	return nil
}
