package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/cmd/internal/errorcode"
)

// uncodedFile is the environment variable with the file to which the program of the scripts adds errors without the
// right code.
const uncodedFile = "ONCEGATE_TEST_UNCODED"

// verdicts lists the commands whose output is their verdict, so that they may end with 1 and without an error.
var verdicts = [][]string{{"providers", "verify"}, {"replay", "plan"}, {"drill"}}

// mainWithCodes runs the command line as main does. It notes every run that fails without a code that the documentation
// explains, or with another exit code than the one that is declared for the code.
func mainWithCodes() int {
	file := os.Getenv(uncodedFile)
	read, write, err := os.Pipe()
	if file == "" || err != nil {
		return cli.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	}
	var said bytes.Buffer
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(io.MultiWriter(os.Stderr, &said), read)
	}()
	exit := cli.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, write)
	_ = write.Close()
	<-copied
	if fault := faultOfCodes(os.Args[1:], exit, said.String()); fault != "" {
		appendTo(file, fmt.Sprintf("oncegate %s (exit %d): %s\n%s", strings.Join(os.Args[1:], " "), exit, fault, &said))
	}
	return exit
}

// appendTo adds text to a file.
func appendTo(path, text string) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	_, _ = file.WriteString(text)
}

// codedLine matches a line that ends with a code. A question may come before the error, because the line break of its
// answer is the terminal's.
var codedLine = regexp.MustCompile(`(?:^| )oncegate: .* \[([a-z_]+)\]$`)

// faultOfCodes says what is wrong with the codes on stderr, or returns an empty string.
func faultOfCodes(args []string, exit int, stderr string) string {
	var codes []errorcode.Code
	for line := range strings.Lines(stderr) {
		line = strings.TrimRight(line, "\r\n")
		var object struct{ Error, Code string }
		if m := codedLine.FindStringSubmatch(line); m != nil {
			codes = append(codes, errorcode.Code(m[1]))
		} else if json.Unmarshal([]byte(line), &object) == nil && object.Error != "" && object.Code != "" {
			codes = append(codes, errorcode.Code(object.Code))
		}
	}
	isVerdict := slices.ContainsFunc(verdicts, func(words []string) bool {
		return len(args) >= len(words) && slices.Equal(args[:len(words)], words)
	})
	switch {
	case exit == 0 || len(codes) == 0 && exit == 1 && isVerdict:
		return ""
	case len(codes) == 0:
		return "no code"
	}
	for _, code := range codes {
		if !errorcode.Known(code) {
			return fmt.Sprintf("%s is not explained", code)
		}
		for _, m := range errorcode.All() {
			if m.Code == code && m.Exit != exit {
				return fmt.Sprintf("%s is declared with exit code %d", code, m.Exit)
			}
		}
	}
	return ""
}

// The check of the scripts notices what it must.
func TestFaultsOfCodesAreNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   string
		exit   int
		stderr string
		want   string
	}{
		"success":                     {"version", 0, "", ""},
		"a code":                      {"events lst", 2, "oncegate: unknown command [unknown_command]\n", ""},
		"a code of an operation":      {"events show", 1, "oncegate: gone [not_found]\n", ""},
		"a code in JSON":              {"events lst", 2, `{"error":"unknown command","code":"unknown_command"}` + "\n", ""},
		"an answer to a question":     {"streams skip", 1, "Type skip to continue: oncegate: not confirmed [not_confirmed]\n", ""},
		"two lines":                   {"serve", 2, "oncegate: a [invalid_configuration]\noncegate: b [invalid_configuration]\n", ""},
		"no code":                     {"events lst", 2, "oncegate: unknown command\n", "no code"},
		"JSON without a code":         {"events lst", 2, `{"error":"unknown command"}` + "\n", "no code"},
		"silence":                     {"events list", 1, "", "no code"},
		"a verdict":                   {"providers verify stripe", 1, "", ""},
		"a verdict with another exit": {"providers verify stripe", 2, "", "no code"},
		"a code that does not exist":  {"events lst", 2, "oncegate: unknown command [whim]\n", "whim is not explained"},
		"another exit code":           {"events lst", 1, "oncegate: unknown command [unknown_command]\n", "declared with exit code 2"},
	} {
		if got := faultOfCodes(strings.Fields(c.args), c.exit, c.stderr); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
