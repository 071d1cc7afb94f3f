package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/schollz/progressbar/v3"
)

// survivor is a change that no test detected.
type survivor struct {
	Place string   `json:"place"` // file:line
	Kind  string   `json:"kind"`
	Diff  string   `json:"diff"`
	Tests []string `json:"tests"` // the packages whose tests ran
}

func (s *survivor) print(w io.Writer) {
	fmt.Fprintf(w, "%s: survived the tests of %s (%s)\n%s\n", s.Place, strings.Join(s.Tests, " "), s.Kind, s.Diff)
}

// progress returns a function that updates a progress bar. It does nothing if the output is not a
// terminal.
func (c *campaign) progress() func(text string) {
	file, ok := c.err.(*os.File)
	if !ok {
		return func(string) {}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(string) {}
	}
	bar := progressbar.NewOptions(c.options.number, progressbar.OptionSetWriter(file), progressbar.OptionSetDescription("mutants"),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())
	return func(text string) {
		bar.Describe(text)
		_ = bar.Set(c.Tried)
	}
}

// rate returns the percentage of tested mutants that the tests detected.
func (c *campaign) rate() float64 {
	if c.Tried == 0 {
		return 0
	}
	return 100 * float64(c.Killed+c.TimedOut) / float64(c.Tried)
}

func (c *campaign) report() error {
	if c.options.output == "json" {
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(map[string]any{
			"seed": c.Seed, "packages": c.options.packages, "places": c.Places, "tried": c.Tried, "killed": c.Killed, "timed_out": c.TimedOut,
			"stillborn": c.Stillborn, "survived": len(c.Survivors), "rate": c.rate(), "cut": c.Cut, "survivors": c.Survivors,
		}); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		return nil
	}
	fmt.Fprintf(c.out, "%d mutants of %d places: %d killed, %d timed out, %d survived (%.0f %% noticed); %d more did not compile\n",
		c.Tried, c.Places, c.Killed, c.TimedOut, len(c.Survivors), c.rate(), c.Stillborn)
	if c.Cut {
		fmt.Fprintf(c.out, "the time was over before %d were tried: see --for\n", c.options.number)
	}
	fmt.Fprintf(c.out, "again: ./scripts/mutants --seed %d --number %d %s\n", c.Seed, c.options.number, strings.Join(c.options.packages, " "))
	return nil
}
