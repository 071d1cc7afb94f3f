package main

import (
	"cmp"
	"fmt"
	"slices"
)

// interval is the median of ratios, and an interval that contains the true median with a confidence of at least 95 %,
// whatever the distribution of the ratios is.
type interval struct {
	What   string  `json:"what"`
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`

	// Confidence is the confidence of the interval. It is below 95 % for fewer than 6 pairs, for which no interval
	// reaches it.
	Confidence float64 `json:"confidence"`
}

// newInterval divides two measurements, pair by pair.
func newInterval(what string, with, without []float64) interval {
	var ratios []float64
	for i := range min(len(with), len(without)) {
		if without[i] > 0 {
			ratios = append(ratios, with[i]/without[i])
		}
	}
	if len(ratios) == 0 {
		return interval{What: what}
	}
	slices.SortFunc(ratios, cmp.Compare)
	leftOut, confidence := outsideInterval(len(ratios))
	return interval{What: what, Median: median(ratios), Low: ratios[leftOut], High: ratios[len(ratios)-1-leftOut], Confidence: confidence}
}

// outsideInterval returns how many of n sorted values to leave out on each side, so that the rest is the narrowest
// interval that contains the median with a confidence of 95 %. Each value is below the median with a probability of one
// half, so the number of values below it is distributed like the number of heads among n tosses of a coin.
func outsideInterval(n int) (leftOut int, confidence float64) {
	below := 1.0 // the probability of at most leftOut heads
	for range n {
		below /= 2
	}
	confidence = 1 - 2*below
	for term, k := below, 1; k <= n/2; k++ {
		term *= float64(n-k+1) / float64(k)
		if below += term; 1-2*below < .95 {
			break
		}
		leftOut, confidence = k, 1-2*below
	}
	return leftOut, confidence
}

func (i *interval) String() string {
	return fmt.Sprintf("%-44s %6.3f  (%.3f to %.3f with %.0f %%)", i.What, i.Median, i.Low, i.High, 100*i.Confidence)
}
