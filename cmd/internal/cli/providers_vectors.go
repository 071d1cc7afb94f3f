package cli

import (
	"fmt"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/vectors"
)

// runVectors runs the test vectors of a file and writes one line per vector and a summary.
func (s *shell) runVectors(path string) error {
	content, err := s.readFile("--vectors", path)
	if err != nil {
		return err
	}
	cases, err := vectors.Parse(content)
	if err != nil {
		return errorf(errorcode.File, "--vectors %s: %v", clean(path), err)
	}
	all, err := s.known()
	if err != nil {
		return err
	}
	results := vectors.Run(all, cases)
	differing := 0
	for i := range results {
		if !results[i].OK {
			differing++
		}
	}
	if s.output == "json" {
		if err := s.json(map[string]any{"cases": emptyList(results), "total": len(results), "differ": differing}); err != nil {
			return err
		}
	} else {
		for i := range results {
			fmt.Fprintln(s.out, clean(caseLine(&results[i])))
		}
		fmt.Fprintf(s.out, "%s, %d as stated, %d differ\n", count(len(results), "case"), len(results)-differing, differing)
	}
	if differing > 0 {
		return errorf(errorcode.CheckFailed, "%d of %s differ", differing, count(len(results), "case"))
	}
	return nil
}

func caseLine(r *vectors.Result) string {
	line := "ok       "
	if !r.OK {
		line = "differs  "
	}
	line += r.Provider + "/" + r.Case + ": " + r.Got
	if !r.OK {
		if r.Got != r.Want {
			line += ", want " + r.Want
		}
	}
	if r.Detail != "" {
		line += ": " + r.Detail
	}
	return line
}
