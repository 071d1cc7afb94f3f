package cli

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
)

// readIDs reads the file of --ids. - is stdin.
func (s *shell) readIDs(path string) ([]inbox.ID, error) {
	if path == "-" {
		return readIDs(s.in)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, errorf(errorcode.File, "--ids: %v", err)
	}
	defer file.Close()
	return readIDs(file)
}

const byteOrderMark = "\ufeff"

// readIDs reads one id per line, the "id" of one JSON object per line, or CSV with a column "id". It ignores empty lines
// and lines that begin with #.
func readIDs(in io.Reader) ([]inbox.ID, error) {
	buffered := bufio.NewReader(in)
	if mark, _ := buffered.Peek(len(byteOrderMark)); string(mark) == byteOrderMark { // spreadsheets write one
		_, _ = buffered.Discard(len(mark))
	}
	if first, _ := buffered.Peek(1024); isCSV(first) {
		return readCSVIDs(buffered)
	}
	var ids []inbox.ID
	lines := bufio.NewScanner(buffered)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '{' {
			var row struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				return nil, errorf(errorcode.File, "--ids: line %d is neither an id nor a JSON object with one", n)
			}
			line = row.ID
		}
		var err error
		if ids, err = addID(ids, line, n); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, errorf(errorcode.File, "--ids: %v", err)
	}
	return ids, someID(ids)
}

// isCSV reports whether the beginning of a file is a first row with the names of columns, one of which is id.
func isCSV(beginning []byte) bool {
	line, _, _ := strings.Cut(string(beginning), "\n")
	return idColumn(strings.Split(strings.TrimSpace(line), ",")) >= 0
}

func idColumn(header []string) int {
	return slices.IndexFunc(header, func(name string) bool { return strings.EqualFold(strings.Trim(name, "\" "), "id") })
}

func readCSVIDs(in io.Reader) (ids []inbox.ID, err error) {
	rows := csv.NewReader(in)
	rows.FieldsPerRecord = -1
	column := 0
	for n := 1; ; n++ {
		row, err := rows.Read()
		switch {
		case err == io.EOF: //nolint:errorlint // it is never wrapped
			return ids, someID(ids)
		case err != nil:
			return nil, errorf(errorcode.File, "--ids: %v", err)
		case n == 1:
			column = idColumn(row)
			continue
		case column >= len(row):
			return nil, errorf(errorcode.File, "--ids: row %d has no id", n)
		}
		if ids, err = addID(ids, strings.TrimSpace(row[column]), n); err != nil {
			return nil, err
		}
	}
}

// addID adds the id of line n.
func addID(ids []inbox.ID, text string, n int) ([]inbox.ID, error) {
	id, err := inbox.ParseID(text)
	if err != nil {
		return nil, errorf(errorcode.File, "--ids: line %d: %q is not an id", n, clean(cut(text, 60)))
	}
	if ids = append(ids, id); len(ids) > replay.MaxIDs {
		return nil, errorf(errorcode.File, "--ids: more than %d ids", replay.MaxIDs)
	}
	return ids, nil
}

func someID(ids []inbox.ID) error {
	if len(ids) == 0 {
		return errorf(errorcode.File, "--ids: there is no id in it")
	}
	return nil
}
