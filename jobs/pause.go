package jobs

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/internal/sleep"
)

const (
	// An effect of a paused route is put off for half an hour to an hour. The process that sees the end of the pause makes it
	// due at once, so the length only bounds how often a long pause writes its row.
	pausedPause = 30 * time.Minute

	// heldPause is how long a wake-up waits for a held effect of a paused route. The sweeper would replace a wake-up that
	// waits for longer than half a minute.
	heldPause = 20 * time.Second

	// resumedAgain is how long after the end of a pause its effects are recalled once more. By then every process has read that the
	// pause has ended, and puts off no further effects because of it.
	resumedAgain = 5 * time.Second
)

// Resumed tells the client that a pause has ended. The client then makes the waiting effects due, in the background.
func (c *Client) Resumed() {
	select {
	case c.resumed <- struct{}{}:
	default: // a recall that has not begun yet sees this one too
	}
}

// recallResumed makes effects due whose routes are not paused any more: once when the client starts, because a pause may have ended
// while no process ran, and twice after each end of a pause.
func (c *Client) recallResumed() {
	for {
		c.recall(c.store.RecallPaused, "effects of resumed routes are due", "recalling effects of resumed routes")
		var again <-chan time.Time
		select {
		case <-c.stopping.Done():
			return
		case <-c.resumed:
			again = time.After(resumedAgain)
			c.recall(c.store.RecallPaused, "effects of resumed routes are due", "recalling effects of resumed routes")
		}
		select {
		case <-c.stopping.Done():
			return
		case <-again:
		case <-c.resumed:
			c.Resumed()
		}
	}
}

// recall repeats a recall until it succeeds or the client stops.
func (c *Client) recall(do func(context.Context, func(context.Context, []int64, []int32) error) (int, error), done, doing string) {
	for pause := faultPause; ; pause = min(2*pause, time.Minute) {
		n, err := do(c.stopping, c.wakeRecalled)
		if n > 0 {
			c.log.InfoContext(c.stopping, done, "effects", n) //nolint:sloglint // a constant of the caller
		}
		if err == nil {
			return
		}
		if c.stopping.Err() == nil {
			c.log.WarnContext(c.stopping, doing, "error", clean(err.Error())) //nolint:sloglint // a constant of the caller
		}
		if sleep.For(c.stopping, pause) != nil {
			return
		}
	}
}
