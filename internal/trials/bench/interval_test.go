package main

import (
	"math"
	"testing"
)

// The numbers are those of tables of the sign test, such as Conover, Practical Nonparametric Statistics, A3.
func TestIntervalOfAMedian(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]struct {
		leftOut    int
		confidence float64
	}{1: {0, 0}, 5: {0, .9375}, 6: {0, .96875}, 8: {0, .9921875}, 9: {1, .9609375}, 12: {2, .9614}, 20: {5, .9586}, 30: {9, .9572}} {
		leftOut, confidence := outsideInterval(n)
		if leftOut != want.leftOut || math.Abs(confidence-want.confidence) > .0001 {
			t.Errorf("of %d values %d are left out with %.4f, want %d with %.4f", n, leftOut, confidence, want.leftOut, want.confidence)
		}
	}
	got := newInterval("x", []float64{9, 1, 2, 3, 4, 5, 6, 7, 80}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1})
	if got.Median != 5 || got.Low != 2 || got.High != 9 {
		t.Errorf("the interval is %s", &got)
	}
}
