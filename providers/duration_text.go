package providers

import (
	"fmt"
	"time"
)

// Text formats the duration in whole days, hours or minutes if possible, such as 3d. It returns
// "none" for [Off] and an empty string for zero.
func (d Duration) Text() string {
	const day = 24 * time.Hour
	switch t := time.Duration(d); {
	case d == 0:
		return ""
	case d == Off:
		return "none"
	case t%day == 0:
		return fmt.Sprintf("%dd", t/day)
	case t%time.Hour == 0:
		return fmt.Sprintf("%dh", t/time.Hour)
	case t%time.Minute == 0:
		return fmt.Sprintf("%dm", t/time.Minute)
	default:
		return t.String()
	}
}
