package providers_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// One instant is one number however the provider's unit spells it, to the
// nanosecond, and a later one is larger.
func TestSequenceNumbersOfTimes(t *testing.T) {
	t.Parallel()
	spell := map[string]func(time.Time) string{
		"s":       func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) },
		"ms":      func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) },
		"us":      func(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) },
		"ns":      func(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) },
		"rfc3339": func(t time.Time) string { return strconv.Quote(t.Format(time.RFC3339Nano)) },
	}
	resolution := map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": 1, "rfc3339": 1}
	for unit := range spell {
		t.Run(unit, func(t *testing.T) {
			t.Parallel()
			p := custom(t, `
extends: hmac
identity: { candidates: [{ json: id }] }
sequence: { kind: time, candidates: [{ key: { json: key }, number: { json: at, unit: `+unit+` } }] }
`)
			random := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				at := time.Unix(random.Int64N(4_000_000_000), random.Int64N(1_000_000_000)).
					In(time.FixedZone("", 60*(random.IntN(24*60)-12*60)))
				item := accept(t, p, fmt.Sprintf(`{"id":"a","key":"k","at":%s}`, spell[unit](at)))[0]
				want := at.Truncate(resolution[unit]).UnixNano()
				if item.SequenceNumber != strconv.FormatInt(want, 10) {
					t.Fatalf("%s is %s, want %d", spell[unit](at), item.SequenceNumber, want)
				}
			}
		})
	}
}

func TestSequenceNumbersOfSecondsWithDecimals(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: hmac
identity: { candidates: [{ json: id }] }
occurred_at: [{ json: at, unit: s }]
sequence: { kind: time, candidates: [{ key: { json: key }, number: { json: at, unit: s } }] }
`)
	for at, want := range map[string]string{
		`"1355517523.000005"`: "1355517523000005000", `1355517523.000005`: "1355517523000005000", `1355517523.5`: "1355517523500000000",
		`1355517523.1234567899`: "1355517523123456789", `"1355517523."`: "1355517523000000000",
		`"1355517523.5 "`: "", `"1355517523.5.5"`: "", `1.5e9`: "", `-1.5`: "", `"01.5"`: "", `".5"`: "",
	} {
		if item := accept(t, p, `{"id":"a","key":"k","at":`+at+`}`)[0]; item.SequenceNumber != want {
			t.Errorf("%s is %q, want %q", at, item.SequenceNumber, want)
		}
	}
}
