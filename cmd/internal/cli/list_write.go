package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/oncegate/oncegate/internal/visible"
)

// listWriter writes rows as JSON when they arrive, so that a long list is never in memory. It
// writes the envelope of the API, or one object per line.
type listWriter struct {
	out   io.Writer
	lines bool
	rows  int
}

func (s *shell) newListWriter() *listWriter {
	return &listWriter{out: s.out, lines: s.jsonLines}
}

// row writes one row.
func (w *listWriter) row(row any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(visible.NewWriter(&text))
	encoder.SetEscapeHTML(false)
	if !w.lines {
		encoder.SetIndent("    ", "  ")
	}
	if err := encoder.Encode(row); err != nil {
		return fmt.Errorf("writing json: %w", err)
	}
	before := ""
	switch {
	case w.lines:
	case w.rows == 0:
		before = "{\n  \"data\": [\n    "
	default:
		before = ",\n    "
	}
	w.rows++
	content := text.Bytes()
	if !w.lines {
		content = bytes.TrimSuffix(content, []byte("\n"))
	}
	if _, err := w.out.Write(append([]byte(before), content...)); err != nil {
		return fmt.Errorf("writing json: %w", err)
	}
	return nil
}

// end closes the envelope.
func (w *listWriter) end(more bool, next string, searchedTo *time.Time, databases, away []string) error {
	if w.lines {
		return nil
	}
	rest, err := json.MarshalIndent(struct {
		HasMore    bool       `json:"has_more"`
		Next       string     `json:"next,omitempty"`
		SearchedTo *time.Time `json:"searched_to,omitempty"`
		Databases  []string   `json:"databases,omitempty"`
		Away       []string   `json:"away,omitempty"`
	}{more, next, searchedTo, databases, away}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing json: %w", err)
	}
	begin := "{\n  \"data\": ["
	if w.rows > 0 {
		begin = "\n  "
	}
	if _, err := fmt.Fprintf(w.out, "%s],%s\n", begin, rest[1:]); err != nil {
		return fmt.Errorf("writing json: %w", err)
	}
	return nil
}
