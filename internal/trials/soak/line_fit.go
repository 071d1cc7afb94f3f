package soak

import "math"

// point is one sample.
type point struct {
	seconds, value float64
}

// line is a least-squares fit. Its slope is per second, plus or minus margin with a confidence of about 95 %.
type line struct {
	mean, slope, margin float64
}

// fitPoints is the number of means that the samples are reduced to before the line is fitted. Consecutive samples
// depend on each other (a collector's sawtooth, a checkpoint), so a margin that assumed independence would be too
// narrow.
const fitPoints = 20

// studentT is the 97.5th percentile of Student's t for n degrees of freedom, from 1 to 18.
var studentT = []float64{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10}

// fit fits a line; ok is false for fewer than three points.
func fit(points []point) (l line, ok bool) {
	points = blockMeans(points)
	n := float64(len(points))
	if len(points) < 3 {
		return line{}, false
	}
	var x, y float64
	for _, p := range points {
		x, y = x+p.seconds/n, y+p.value/n
	}
	var xx, xy float64
	for _, p := range points {
		xx += (p.seconds - x) * (p.seconds - x)
		xy += (p.seconds - x) * (p.value - y)
	}
	if xx == 0 {
		return line{}, false
	}
	l = line{mean: y, slope: xy / xx}
	var rest float64
	for _, p := range points {
		off := p.value - y - l.slope*(p.seconds-x)
		rest += off * off
	}
	l.margin = studentT[min(len(points)-2, len(studentT))-1] * math.Sqrt(rest/(n-2)/xx)
	return l, true
}

// blockMeans reduces the points to means of equally many consecutive points.
func blockMeans(points []point) []point {
	if len(points) <= 2*fitPoints {
		return points
	}
	out := make([]point, fitPoints)
	for i := range out {
		part := points[i*len(points)/fitPoints : (i+1)*len(points)/fitPoints]
		for _, p := range part {
			out[i].seconds += p.seconds / float64(len(part))
			out[i].value += p.value / float64(len(part))
		}
	}
	return out
}
