package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// slowBeside has the target take its time for events without order, so that they are delivered faster than WORKERS processes carry
// them out.
const slowBeside = `
ALTER FUNCTION order_apply(text, bigint, timestamptz, boolean) RENAME TO order_apply_now;
CREATE FUNCTION order_apply(k text, n bigint, received timestamptz, slow boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF k = 'plain' THEN
        PERFORM pg_sleep(0.015 * WORKERS);
    END IF;
    PERFORM order_apply_now(k, n, received, slow);
END $$`

// Planted defects.
const (
	// Each new job has its place at the end of the queue.
	wakeAtTheEnd = `
CREATE FUNCTION wake_at_the_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.scheduled_at := greatest(NEW.scheduled_at, now());
    RETURN NEW;
END $$;
CREATE TRIGGER wake_at_the_end BEFORE INSERT ON river_job FOR EACH ROW EXECUTE FUNCTION wake_at_the_end()`

	// Each version of a key delays the jobs of the earlier versions.
	wakeNewestLast = `
CREATE FUNCTION wake_newest_last() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE river_job j SET scheduled_at = now()
    FROM effect e JOIN fresh f ON e.route_id = f.route_id AND e.sequence_key_hash = f.sequence_key_hash
    WHERE j.id = e.job_id AND e.state = 'pending' AND j.state = 'available';
    RETURN NULL;
END $$;
CREATE TRIGGER wake_newest_last AFTER INSERT ON effect REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION wake_newest_last()`
)

// Both lists of places: in the order of receipt, and in the order in which the target got them.
const (
	readReceived = `SELECT split_part(v.event_id, '_', 2), split_part(v.event_id, '_', 3)::bigint FROM inbox_event v ORDER BY v.received_at, v.id`
	readRan      = `SELECT stream, number FROM drill_applied ORDER BY place`
)

// queuePlaces are the places of ordered events, in the order of receipt. A place counts the unordered effects before it, so that it
// can be compared although superseded versions do not run.
type queuePlaces struct {
	received, ran map[delivery]int
	order         []delivery
}

func (c *campaign) places(ctx context.Context) (p queuePlaces, err error) {
	read := func(query string) (map[delivery]int, error) {
		places, before := map[delivery]int{}, 0
		rows, err := c.DB.Query(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("reading places: %w", err)
		}
		var d delivery
		_, err = pgx.ForEachRow(rows, []any{&d.key, &d.number}, func() error {
			if d.key == unordered {
				before++
			} else {
				places[d] = before
			}
			return nil
		})
		return places, err
	}
	if p.received, err = read(readReceived); err != nil {
		return p, err
	}
	if p.ran, err = read(readRan); err != nil {
		return p, err
	}
	for d := range p.received {
		p.order = append(p.order, d)
	}
	slices.SortFunc(p.order, func(a, b delivery) int {
		return cmp.Or(cmp.Compare(p.received[a], p.received[b]), cmp.Compare(a.number, b.number), cmp.Compare(a.key, b.key))
	})
	return p, err
}

// median sorts the numbers and returns the one in the middle.
func median(numbers []int) int {
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}

// checkPlaces compares the places at which ordered effects ran with those at which they were received, apart for keys that were
// blocked. In the variant latest a version counts as run when it or a newer one ran, which is often before its own place. Medians are compared, because a process that
// gets no processor time on a busy machine delays what it has fetched.
func (c *campaign) checkPlaces(ctx context.Context, r *result) error {
	p, err := c.places(ctx)
	if err != nil {
		return err
	}
	type group struct{ received, ran, late []int }
	names := []string{"ordered effects", "effects of blocked keys"}
	var groups [2]group
	superseded, at := 0, -1
	for _, d := range slices.Backward(p.order) {
		if place, ok := p.ran[d]; !ok {
			superseded++
		} else if at < 0 || place < at || !c.variant.latest {
			at = place
		}
		g := &groups[0]
		if strings.HasPrefix(d.key, blockedPrefix) {
			if g = &groups[1]; d.number == 1 { // it was given up
				continue
			}
		}
		g.received, g.ran, g.late = append(g.received, p.received[d]), append(g.ran, at), append(g.late, at-p.received[d])
	}
	all := c.unorderedEvents()
	for i, name := range names {
		g := groups[i]
		if len(g.late) == 0 {
			continue
		}
		late := median(g.late)
		r.fault += fmt.Sprintf(", %s received at median place %d of %d and run at %d, %d places late in the median and at most %d",
			name, median(g.received), all, median(g.ran), late, slices.Max(g.late))
		limit := all / 4
		if c.variant.latest {
			limit = all / 8
		}
		if late > limit || -late > limit && !c.variant.latest {
			r.violate(displaced, "in the median, %s ran %d places behind their own, of %d; the limit is %d", name, late, all, limit)
		}
	}
	if c.variant.latest {
		r.fault += fmt.Sprintf(", %d versions superseded", superseded)
	}
	return nil
}
