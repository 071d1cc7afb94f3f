package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// ratio compares two measurements of the same rounds.
type ratio struct {
	What   string  `json:"what"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Target string  `json:"target,omitempty"`
	Met    bool    `json:"met,omitempty"`
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	if n == 0 {
		return 0
	}
	return (values[(n-1)/2] + values[n/2]) / 2
}

// spread is the median and the range of several rounds.
type spread struct{ median, min, max float64 }

func newSpread(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	return spread{median: median(values), min: slices.Min(values), max: slices.Max(values)}
}

// newRatio divides two measurements, round by round. ok is false if there is nothing to divide. At most one of the two
// bounds is given.
func newRatio(what string, above, below []float64, atLeast, atMost float64) (out ratio, ok bool) {
	var values []float64
	for i := range min(len(above), len(below)) {
		if below[i] > 0 {
			values = append(values, above[i]/below[i])
		}
	}
	if len(values) == 0 {
		return ratio{}, false
	}
	s := newSpread(values)
	out = ratio{What: what, Median: s.median, Min: s.min, Max: s.max}
	switch {
	case atLeast > 0:
		out.Target, out.Met = fmt.Sprintf(">= %g", atLeast), out.Median >= atLeast
	case atMost > 0:
		out.Target, out.Met = fmt.Sprintf("<= %g", atMost), out.Median <= atMost
	}
	return out, true
}

func writeRatios(w io.Writer, ratios []ratio) error {
	if len(ratios) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\nRatios within a round\n"); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	for _, x := range ratios {
		verdict := ""
		if x.Target != "" {
			verdict = "  target " + x.Target + ": missed"
			if x.Met {
				verdict = "  target " + x.Target + ": met"
			}
		}
		fmt.Fprintf(w, "  %-48s %6.2f  (%.2f to %.2f)%s\n", x.What, x.Median, x.Min, x.Max, verdict)
	}
	return nil
}

func writeJSON(w io.Writer, report any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(report); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
