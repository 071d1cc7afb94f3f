package console

import (
	"fmt"
	"time"
)

// chart shows how a number changed over time, one bar for each interval.
type chart struct {
	Title, Total, Summary string
	From, To              string
	Width, Height         int
	Bars                  []bar
}

// bar is one bar. Text is its tooltip.
type bar struct {
	X, Y, Width, Height int
	Kind, Text          string
}

const (
	chartBar    = 8
	chartHeight = 60
)

// point is how often something happened in one interval.
type point struct {
	At time.Time
	N  int64
}

// newChart draws points, which are evenly spaced and in order. kind is good, bad, warn or empty.
func newChart(title, kind string, points []point, every time.Duration) chart {
	c, total, most := drawn(title, kind, points, every, groupDigits)
	c.Total = groupDigits(total)
	c.Summary = fmt.Sprintf("%s in all, at most %s in %s", groupDigits(total), groupDigits(most), roughly(every))
	return c
}

// newTimeChart draws points that are times in milliseconds.
func newTimeChart(title, kind string, points []point, every time.Duration) chart {
	return newLevelChart(title, kind, points, every, func(n int64) string { return (time.Duration(n) * time.Millisecond).String() })
}

// newLevelChart draws points that say how much there was, which does not add up.
func newLevelChart(title, kind string, points []point, every time.Duration, shown func(int64) string) chart {
	c, _, most := drawn(title, kind, points, every, shown)
	c.Total = shown(most)
	c.Summary = fmt.Sprintf("at most %s in %s", shown(most), roughly(every))
	return c
}

// drawn draws the bars of points, and returns the sum of the points and the largest one.
func drawn(title, kind string, points []point, every time.Duration, shown func(int64) string) (c chart, total, most int64) {
	c = chart{Title: title, Width: max(1, len(points)) * chartBar, Height: chartHeight}
	for _, p := range points {
		most, total = max(most, p.N), total+p.N
	}
	for i, p := range points {
		height := 0
		if most > 0 {
			height = int(p.N * (chartHeight - 2) / most)
		}
		if p.N > 0 {
			height = max(height, 2)
		}
		c.Bars = append(c.Bars, bar{
			X: i * chartBar, Y: chartHeight - height, Width: chartBar - 1, Height: height, Kind: kind,
			Text: fmt.Sprintf("%s UTC: %s", p.At.UTC().Format("2006-01-02 15:04"), shown(p.N)),
		})
	}
	if len(points) > 0 {
		from, to := points[0].At.UTC(), points[len(points)-1].At.Add(every).UTC()
		form := "15:04"
		if to.Sub(from) > 24*time.Hour {
			form = "Jan 2"
		}
		c.From, c.To = from.Format(form), to.Format(form)
	}
	return c, total, most
}
