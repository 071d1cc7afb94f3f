package docs_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// withCurl adds a replacement for curl if the machine has none, because the documentation uses curl
// and its tests must run on a machine with only Go and git.
func withCurl(commands map[string]func()) map[string]func() {
	if _, err := exec.LookPath("curl"); err != nil || filepath.Base(os.Args[0]) == "curl" {
		commands["curl"] = func() { os.Exit(curl(os.Args[1:])) }
	}
	return commands
}

// curl supports the options that the documentation and its preludes use: -X, -H, -d, -i, -f, -s and
// -S. It follows curl's manual.
func curl(args []string) int {
	header := http.Header{}
	var address, method string
	var data *string
	var include, failing bool
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "-X" || arg == "-H" || arg == "-d":
			if len(args) == 0 {
				return failed("%s without a value", arg)
			}
			value := args[0]
			args = args[1:]
			switch arg {
			case "-X":
				method = value
			case "-H":
				name, text, _ := strings.Cut(value, ":")
				header.Set(name, strings.TrimSpace(text))
			case "-d":
				data = &value
			}
		case strings.HasPrefix(arg, "-") && strings.Trim(arg, "-ifsS") == "":
			include = include || strings.Contains(arg, "i")
			failing = failing || strings.Contains(arg, "f")
		case strings.HasPrefix(arg, "-"):
			return failed("the stand-in for curl does not know %s: install curl, or teach it", arg)
		default:
			address = arg
		}
	}
	made, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, http.NoBody)
	if err != nil {
		return failed("%v", err)
	}
	made.Header = header
	if data != nil {
		made.Method, made.Body, made.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(*data)), int64(len(*data))
		if made.Header.Get("Content-Type") == "" {
			made.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	if method != "" {
		made.Method = method
	}
	answer, err := http.DefaultClient.Do(made)
	if err != nil {
		return failed("%v", err)
	}
	defer answer.Body.Close()
	if failing && answer.StatusCode >= http.StatusBadRequest {
		fmt.Fprintf(os.Stderr, "curl: (22) The requested URL returned error: %d\n", answer.StatusCode)
		return 22
	}
	if include {
		fmt.Printf("%s %s\r\n", answer.Proto, answer.Status)
		_ = answer.Header.Write(os.Stdout)
		fmt.Print("\r\n")
	}
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
		return failed("%v", err)
	}
	return 0
}

func failed(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "curl: "+format+"\n", args...)
	return 2
}
