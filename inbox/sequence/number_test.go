package sequence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/sequence"
)

func TestParseNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0.000": "0", "007": "7", "+7": "7", "-07.50": "-7.5", "9223372036854775808": "9223372036854775808",
		"1700000000.000000001": "1700000000.000000001", strings.Repeat("9", 1000): strings.Repeat("9", 1000),
	} {
		if n, err := sequence.ParseNumber(text); err != nil || n.String() != want {
			t.Errorf("%q is read as %q, %v, want %q", text, n, err, want)
		}
	}
	for _, text := range []string{"", "-", ".", "1.", ".5", "1e3", "0x1", "NaN", "Infinity", " 1", "1 ", "1,5", "١", "1.2.3", "--1", strings.Repeat("9", 1001)} {
		if n, err := sequence.ParseNumber(text); !errors.Is(err, sequence.ErrNumber) {
			t.Errorf("%q is read as %q, %v, want ErrNumber", text, n, err)
		}
	}
}

func TestNumbersAreOrdered(t *testing.T) {
	t.Parallel()
	var numbers []sequence.Number
	for _, text := range []string{"", "-10", "-9.5", "-9.45", "-1", "0", "0.1", "0.15", "0.2", "1", "9", "10", "18446744073709551616", "18446744073709551616.5"} {
		n, _ := sequence.ParseNumber(text)
		numbers = append(numbers, n)
	}
	sign := func(n int) int { return max(min(n, 1), -1) }
	for i, n := range numbers {
		for j, m := range numbers {
			if got := n.Compare(m); sign(got) != sign(i-j) {
				t.Errorf("comparing %q with %q gives %d", n, m, got)
			}
		}
	}
}

func TestNeighbours(t *testing.T) {
	t.Parallel()
	for text, next := range map[string]string{"-1": "0", "0": "1", "9": "10", "99999999999999999999": "100000000000000000000"} {
		n, err := sequence.ParseNumber(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Next(); got.String() != next || got.Previous() != n {
			t.Errorf("after %s comes %s, before that %s", n, got, got.Previous())
		}
	}
}

func TestPoliciesAreChecked(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]sequence.Policy{
		"":                     {Mode: sequence.Contiguous, Start: "-3", OnGap: sequence.GapFail, Late: sequence.LateDead, OnDead: sequence.DeadSkip, Ties: sequence.Hold},
		"mode is \"strict\"":   {Mode: "strict"},
		"on_gap is":            {Mode: sequence.Contiguous, OnGap: "drop"},
		"late is":              {Mode: sequence.Contiguous, Late: "skip"},
		"on_dead is":           {Mode: sequence.Contiguous, OnDead: "hold"},
		"ties is":              {Mode: sequence.Latest, Ties: "skip"},
		"must not be negative": {Mode: sequence.Contiguous, Patience: -1},
		"not a whole number":   {Mode: sequence.Contiguous, Start: "1.5"},
		"order start":          {Mode: sequence.Contiguous, Start: "one"},
	} {
		err := p.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}
