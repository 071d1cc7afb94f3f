package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) suppressionsImportCommand() *cobra.Command {
	var d decision
	var r control.ImportSuppressionsRequest
	var skipInvalid bool
	cmd := &cobra.Command{
		Use: "import <file.csv>", Short: "Suppress all addresses of a file", Args: cobra.ExactArgs(1),
		Long: "Suppress all addresses of a CSV file. A header with a column email, address or recipient says where the\n" +
			"addresses are; without one they are in the first column. The whole file is read first: if a line has no\n" +
			"address, nothing is changed, unless --skip-invalid leaves such lines out.\n\n" +
			"Importing a file again changes nothing, so an import that was interrupted is run again.\n\n" +
			"On a terminal you type the decision; elsewhere the command needs --yes.",
		Example: "  oncegate suppressions import bounces.csv --as bounce --reason 'moved from the old provider' --yes",
	}
	readFlags := requestFlags(cmd, &r)
	readTerms := suppressionTerms(cmd, &r.SuppressionTerms)
	cmd.Flags().BoolVar(&skipInvalid, "skip-invalid", false, "leave out lines that hold no address")
	d.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file := addressFile{path: args[0]}
		for _, check := range []func() error{readFlags, readTerms, func() error { return d.check(s, control.ImportSuppressions.Why) }, file.count} {
			if err := check(); err != nil {
				return err
			}
		}
		switch {
		case len(file.invalid) > 0 && !skipInvalid:
			return errorf(errorcode.File, "%s: %s, on %s: mend the file, or add --skip-invalid; nothing was changed",
				clean(file.path), plural(file.bad, "line has no address", "lines have no address"), file.badLines())
		case file.good == 0:
			return errorf(errorcode.File, "%s contains no address", clean(file.path))
		}
		on := s.onSuppressions()
		on.actor, r.Reason = d.actor, d.reason
		return s.controlWith(cmd.Context(), on, func(caller control.Caller) error {
			if err := s.confirm(d, fmt.Sprintf("%s %d", control.ImportSuppressions.Confirm, file.good), func() {
				s.warn(fmt.Sprintf("%s of %s will get no more messages.", plural(file.good, "address", "addresses"), file.path))
			}); err != nil {
				return err
			}
			return s.importSuppressions(cmd.Context(), caller, file, r)
		})
	}
	return cmd
}

// importSuppressions adds the addresses of a file in short transactions.
func (s *shell) importSuppressions(ctx context.Context, caller control.Caller, file addressFile, r control.ImportSuppressionsRequest) error {
	var sum suppression.Added
	bar := s.progress(int64(file.good), "importing")
	defer bar.done()
	done := int64(0)
	flush := func() error {
		if len(r.Addresses) == 0 {
			return nil
		}
		added, err := control.Call(ctx, caller, &control.ImportSuppressions, r)
		if err != nil {
			return fmt.Errorf("after %d addresses (run it again to continue): %w", done, err)
		}
		sum = sum.Plus(added.Added)
		done += int64(len(r.Addresses))
		bar.at(done)
		r.Addresses = nil
		return nil
	}
	err := file.each(func(_ int, address string) error {
		if !isAddress(address) {
			return nil // already counted by file.count
		}
		if r.Addresses = append(r.Addresses, address); len(r.Addresses) == suppression.MaxBatch {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	bar.done()
	if s.output == "json" {
		return s.json(struct {
			suppression.Added
			Invalid int `json:"invalid"`
		}{sum, file.bad})
	}
	fmt.Fprintf(s.out, "%s suppressed, %d for longer than before, %d known already, %s left out\n",
		plural(sum.Added, "address", "addresses"), sum.Extended, sum.Known, plural(file.bad, "line", "lines"))
	return nil
}

// addressFile is a CSV file with addresses.
type addressFile struct {
	path      string
	good, bad int
	invalid   []int // the first lines without a valid address
}

// maxInvalid is how many lines without a valid address are listed.
const maxInvalid = 5

// count reads the whole file, so that a mistake in it is reported before anything is changed.
func (f *addressFile) count() error {
	return f.each(func(line int, address string) error {
		if isAddress(address) {
			f.good++
			return nil
		}
		f.bad++
		if len(f.invalid) < maxInvalid {
			f.invalid = append(f.invalid, line)
		}
		return nil
	})
}

func (f *addressFile) badLines() string {
	texts := make([]string, len(f.invalid))
	for i, line := range f.invalid {
		texts[i] = strconv.Itoa(line)
	}
	out := strings.Join(texts, ", ")
	if f.bad > len(f.invalid) {
		return "lines " + out + " and others"
	}
	if len(texts) == 1 {
		return "line " + out
	}
	return "lines " + out
}

// each calls do for each address of the file, with its line number. Only one record is in memory at
// a time.
func (f *addressFile) each(do func(line int, address string) error) error {
	file, err := os.Open(f.path)
	if err != nil {
		return errorf(errorcode.File, "reading the addresses: %v", err)
	}
	defer file.Close()
	in := csv.NewReader(file)
	in.FieldsPerRecord, in.LazyQuotes, in.ReuseRecord, in.TrimLeadingSpace = -1, true, true, true
	column := 0
	for first := true; ; first = false {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errorf(errorcode.File, "%s is no CSV file: %v", clean(f.path), err)
		}
		line, _ := in.FieldPos(0)
		if first {
			if at := slices.IndexFunc(record, isAddressHeader); at >= 0 {
				column = at
				continue
			}
		}
		address := ""
		if column < len(record) {
			address = record[column]
		}
		if err := do(line, address); err != nil {
			return err
		}
	}
}

func isAddress(text string) bool {
	_, err := suppression.Normalize(text)
	return err == nil
}

func isAddressHeader(name string) bool {
	name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))) // the byte order mark that some programs write
	return slices.Contains([]string{"email", "address", "recipient"}, name)
}
