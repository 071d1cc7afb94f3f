package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// The statement by which a process compares its clock with the database's, and how late the second receiver gets each answer to it.
// The receiver then believes that the database's clock is half of that time late.
const (
	readClock        = "SELECT clock_timestamp()"
	clockAnswerAfter = 3 * time.Second
)

// numberByClock is a planted defect: the number of an effect is the time at which the process believes to have received its event.
const numberByClock = `
CREATE FUNCTION number_by_clock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT extract(epoch FROM v.received_at) * 1000000 INTO NEW.sequence_number FROM inbox_event v WHERE v.id = NEW.event_id;
    RETURN NEW;
END $$;
CREATE TRIGGER number_by_clock BEFORE INSERT ON effect FOR EACH ROW EXECUTE FUNCTION number_by_clock()`

// deliverInTurn delivers the events of one key as a sender does that waits for each answer. The receivers take them in turn.
func (c *campaign) deliverInTurn(ctx context.Context, k int) error {
	for n := 1; n <= c.eventsPerSequence(); n++ {
		if err := c.deliver(ctx, delivery{key: "k" + strconv.Itoa(k), number: n}); err != nil {
			return err
		}
	}
	return nil
}

// How far the receivers' times contradict the order in which a sender got its answers, in seconds.
const readContradiction = `
WITH received AS (
    SELECT v.received_at, lag(v.received_at) OVER (PARTITION BY split_part(v.event_id, '_', 2) ORDER BY split_part(v.event_id, '_', 3)::int) AS before
    FROM inbox_event v)
SELECT coalesce(max(extract(epoch FROM before - received_at)), 0)::float8 FROM received`

// checkClocks makes sure that the receivers disagreed about the time. Otherwise the variant shows nothing.
func (c *campaign) checkClocks(ctx context.Context, r *result) error {
	var apart float64
	if err := c.DB.QueryRow(ctx, readContradiction).Scan(&apart); err != nil {
		return fmt.Errorf("comparing the receivers' times: %w", err)
	}
	r.fault = fmt.Sprintf(", a receiver whose time was up to %.1f s behind what was answered before", apart)
	if apart < clockAnswerAfter.Seconds()/4 && !c.variant.defect() {
		r.violate(vacuous, "the receivers agree about the time")
	}
	return nil
}
