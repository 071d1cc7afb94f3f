package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/visible"
)

// reportedError is an error as --output json shows it, on stderr.
type reportedError struct {
	Error string         `json:"error"`
	Code  errorcode.Code `json:"code"`
}

// report writes an error to stderr: each message in a line, with the code at its end. On a terminal a hint follows.
func (s *shell) report(err error) {
	if errors.Is(err, errSilent) {
		return
	}
	code, _ := codeOf(err)
	for _, text := range messages(err) {
		if s.inJSON() {
			encoder := json.NewEncoder(visible.NewWriter(s.err))
			encoder.SetEscapeHTML(false)
			_ = encoder.Encode(reportedError{text, code}) // there is no other place for an error
			continue
		}
		fmt.Fprintf(s.err, "oncegate: %s [%s]\n", clean(text), clean(string(code)))
	}
	s.hint(code)
}

// inJSON reports whether the user asked for JSON, also before the flags are checked.
func (s *shell) inJSON() bool {
	return s.asJSON || s.output == "json" || s.output == "jsonl"
}

// hint says on a terminal which command explains a code. An error of usage names `--help` already.
func (s *shell) hint(code errorcode.Code) {
	file, ok := s.err.(*os.File)
	if !ok || !isTerminal(file) || s.inJSON() || code == errorcode.Usage || !errorcode.Known(code) {
		return
	}
	text := "`oncegate explain " + string(code) + "` says more"
	if !s.takesColours() {
		fmt.Fprintln(s.err, text)
		return
	}
	fmt.Fprintln(s.err, "\x1b[2m"+text+"\x1b[0m")
}

// messages returns what a user reads about an error: one line, or one for each problem of the configuration.
func messages(err error) []string {
	if problems, ok := errors.AsType[config.Problems](err); ok {
		lines := make([]string, len(problems))
		for i, p := range problems {
			lines[i] = p.String()
		}
		return lines
	}
	if errors.Is(err, registry.ErrNames) || errors.Is(err, registry.ErrRecipe) { // one line each
		var lines []string
		for line := range strings.Lines(err.Error()) {
			lines = append(lines, strings.TrimSpace(line))
		}
		return lines
	}
	return []string{explain(err)}
}
