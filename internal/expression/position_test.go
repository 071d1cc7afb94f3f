package expression_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/expression"
)

func TestNumbersAreNeverRounded(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		`7`: "7", `-7`: "-7", `0`: "0", `9223372036854775807`: "9223372036854775807", `9223372036854775808`: "9223372036854775808",
		`99999999999999999999999999999999999999`: "99999999999999999999999999999999999999", `7.0`: "7", `1e3`: "1000",
		`"0007"`: "0007", `"1355517523.000005"`: "1355517523.000005", `"2026-11-21"`: "2026-11-21", `"x"`: "x",
		// The expected nanoseconds were computed with `date -u +%s%N` and by hand.
		`"1970-01-01T00:00:00Z"`: "0", `"2026-11-21T12:00:00Z"`: "1795262400000000000",
		`"2026-11-21T12:00:00.000000001Z"`:      "1795262400000000001",
		`"2026-11-21T13:00:00.5+01:00"`:         "1795262400500000000",
		`"2026-11-21T06:30:00.123456789-05:30"`: "1795262400123456789",
		// No times, or not known exactly.
		`"0001-01-01T00:00:00Z"`: "0001-01-01T00:00:00Z", `"2300-01-01T00:00:00Z"`: "2300-01-01T00:00:00Z",
		`"2026-11-21T12:00:00.0000000001Z"`: "2026-11-21T12:00:00.0000000001Z",
	} {
		got, err := number(t, written)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", written, got, err, want)
		}
	}
	for written, want := range map[string]error{
		`null`: expression.ErrNull, `""`: expression.ErrNull, `true`: expression.ErrType, `[1]`: expression.ErrType, `{}`: expression.ErrType,
		`1.5`: expression.ErrType, `1e300`: expression.ErrType, `9007199254740993.0`: expression.ErrType,
	} {
		if got, err := number(t, written); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v, want %v", written, got, err, want)
		}
	}
}

var numberOf = mustNumber("body.n")

func mustNumber(source string) *expression.Program {
	p, err := expression.Compile(source, expression.Number)
	if err != nil {
		panic(err)
	}
	return p
}

func number(t *testing.T, written string) (string, error) {
	t.Helper()
	number, _, err := numberOf.Number(input(`{"n": ` + written + `}`))
	return number, err
}

// The same instant is the same number in every zone, and the later one is the
// larger.
func TestTimesCompareAsInstants(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		at := time.Unix(random.Int64N(4_000_000_000), random.Int64N(1_000_000_000))
		later := at.Add(time.Duration(random.Int64N(3)))
		zone := func() *time.Location { return time.FixedZone("", (random.IntN(24*60)-12*60)*60) }
		a, err1 := number(t, quoted(at.In(zone()).Format(time.RFC3339Nano)))
		b, err2 := number(t, quoted(later.In(zone()).Format(time.RFC3339Nano)))
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", at, err1, err2)
		}
		x, _ := new(big.Int).SetString(a, 10)
		y, _ := new(big.Int).SetString(b, 10)
		if got := new(big.Int).Sub(y, x).Int64(); got != int64(later.Sub(at)) {
			t.Fatalf("%s and %s are %d apart, want %d", at, later, got, later.Sub(at))
		}
	}
}

func quoted(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func TestNamesOfSequences(t *testing.T) {
	t.Parallel()
	p := compile(t, "body.k", expression.Name)
	for written, want := range map[string]string{`"sub_42"`: "sub_42", `42`: "42", `-1`: "-1", `18446744073709551615`: "18446744073709551615", `"ä b"`: "ä b", quoted(strings.Repeat("x", 1024)): strings.Repeat("x", 1024)} {
		if got, err := p.Name(input(`{"k": ` + written + `}`)); err != nil || got != want {
			t.Errorf("%s: %q, %v", written, got, err)
		}
	}
	for written, want := range map[string]error{
		`null`: expression.ErrNull, `""`: expression.ErrNull, `1.5`: expression.ErrType, `true`: expression.ErrType, `["a"]`: expression.ErrType,
		`"a\u0000b"`: expression.ErrType, `"a\nb"`: expression.ErrType, quoted(strings.Repeat("x", 1025)): expression.ErrType,
	} {
		if got, err := p.Name(input(`{"k": ` + written + `}`)); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v, want %v", written, got, err, want)
		}
	}
	if _, err := p.Name(input(`{}`)); !errors.Is(err, expression.ErrMissing) {
		t.Errorf("no key: %v", err)
	}
	if got, err := compile(t, `event.source + "/" + string(body.k)`, expression.Name).Name(input(`{"k": 7}`)); err != nil || got != "shop/7" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPositionsAreCheckedWhenCompiled(t *testing.T) {
	t.Parallel()
	for _, source := range []string{`1.5`, `true`, `["a"]`, `event`, `timestamp("2026-11-21T12:00:00Z")`} {
		if _, err := expression.Compile(source, expression.Name); err == nil {
			t.Errorf("%s was taken as a name", source)
		}
	}
	for _, source := range []string{`true`, `[1]`, `{}`, `event`, `duration("1s")`} {
		if _, err := expression.Compile(source, expression.Number); err == nil {
			t.Errorf("%s was taken as a number", source)
		}
	}
	if _, _, err := compile(t, `body.?n`, expression.Number).Number(input(`{}`)); !errors.Is(err, expression.ErrNull) {
		t.Errorf("an optional number that is not there: %v", err)
	}
	for _, source := range []string{`event.received_at`, `timestamp(body.at)`, `int(body.n) + 1`, `"7"`, `body.n`} {
		if _, err := expression.Compile(source, expression.Number); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	got, isTime, err := compile(t, `timestamp(body.at)`, expression.Number).Number(input(`{"at": "2026-11-21T12:00:00.000000001Z"}`))
	if err != nil || got != "1795262400000000001" || !isTime {
		t.Errorf("%q, a time: %t, %v", got, isTime, err)
	}
}

func ExampleProgram_Number() {
	p, err := expression.Compile("body.at", expression.Number)
	if err != nil {
		fmt.Println(err)
		return
	}
	number, _, err := p.Number(&expression.Input{Body: []byte(`{"at": "2026-11-21T12:00:00.5Z"}`)})
	fmt.Println(number, err)
	// Output: 1795262400500000000 <nil>
}
