package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Fault is something that the drill breaks.
type Fault string

// The faults.
const (
	// Kill ends a process with SIGKILL and starts it again.
	Kill Fault = "kill"
	// Cut drops a connection to PostgreSQL at a COMMIT, before PostgreSQL got it or before its answer arrived.
	Cut Fault = "cut"
	// Stall delays all traffic between a process and PostgreSQL for a while.
	Stall Fault = "stall"
	// Pause stops a process with SIGSTOP for a while.
	Pause Fault = "pause"
)

// Faults returns all faults.
func Faults() []Fault { return []Fault{Kill, Cut, Stall, Pause} }

// Options say what a drill does. Database, Binary and Length are required.
type Options struct {
	// Database is the URL of the database in which the drill makes its schema.
	Database string

	// Binary is the program that is tried.
	Binary string

	// Length is how long the drill delivers and breaks things. It then waits until everything is settled.
	Length time.Duration

	// Seed decides the schedule of the deliveries and the faults. What a fault hits still depends on timing.
	Seed uint64

	// Rate is the number of deliveries a second, and Nodes the number of processes.
	Rate, Nodes int

	// Faults are those that the drill makes. None is allowed.
	Faults []Fault

	// Keep leaves the schema and the logs in place.
	Keep bool

	// Enough ends the deliveries and the faults early when it is closed. It may be nil.
	Enough <-chan struct{}

	// Log gets a line for each fault and each phase, and At is called about once a second with the time that has passed.
	Log func(format string, args ...any)
	At  func(passed time.Duration)
}

// The limits of the options.
const (
	maxRate  = 5000
	maxNodes = 16
)

// Validate returns an error that names the flag of the command whose value is invalid.
func (o *Options) Validate() error {
	switch {
	case o.Length <= 0 || o.Length > 7*24*time.Hour:
		return fmt.Errorf("--minutes %g: must be more than 0 and at most %d", o.Length.Minutes(), 7*24*60)
	case o.Rate < 1 || o.Rate > maxRate:
		return fmt.Errorf("--rate %d: must be between 1 and %d", o.Rate, maxRate)
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return fmt.Errorf("--nodes %d: must be between 1 and %d", o.Nodes, maxNodes)
	}
	for _, f := range o.Faults {
		if !slices.Contains(Faults(), f) {
			return fmt.Errorf("--faults %q is unknown; known are %s, or none", string(f), JoinFaults(Faults()))
		}
	}
	return nil
}

// JoinFaults returns the faults as the command line takes them.
func JoinFaults(faults []Fault) string {
	if len(faults) == 0 {
		return "none"
	}
	names := make([]string, len(faults))
	for i, f := range faults {
		names[i] = string(f)
	}
	return strings.Join(names, ",")
}

// ParseFaults parses a list with commas, or none.
func ParseFaults(text string) []Fault {
	if text == "none" {
		return nil
	}
	var faults []Fault
	for name := range strings.SplitSeq(text, ",") {
		faults = append(faults, Fault(strings.TrimSpace(name)))
	}
	return faults
}
