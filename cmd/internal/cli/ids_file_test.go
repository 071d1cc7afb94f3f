package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/cli"
)

// The ids of a file are one on each line, of JSON objects, or of a column of CSV. A spreadsheet adds a mark of its encoding and quotes.
func TestIDsOfAFile(t *testing.T) {
	t.Parallel()
	const one, two = "0199aaaa-0000-7000-8000-000000000001", "0199aaaa-0000-7000-8000-000000000002"
	for _, text := range []string{
		one + "\n\n# a comment\n  " + two + "\r\n",
		`{"id":"` + one + `","state":"dead"}` + "\n" + `{"id":"` + two + `"}`,
		"recorded,ID,state\n2026-11-27," + one + ",indeterminate\n2026-11-27," + two + ",\"a, b\"\n",
		"\ufeff\"id\"\r\n\"" + one + "\"\r\n\"" + two + "\"\r\n",
	} {
		ids, err := cli.ReadIDs(strings.NewReader(text))
		if err != nil || fmt.Sprint(ids) != "["+one+" "+two+"]" {
			t.Errorf("%q has the ids %v and %v", text, ids, err)
		}
	}
	for text, part := range map[string]string{
		"":                       "there is no id in it",
		"id,state\n":             "there is no id in it",
		"state,id\ndone\n":       "row 2 has no id",
		"state,id\ndone,evt_1\n": `line 2: "evt_1" is not an id`,
		"key,state\nabc,done\n":  `line 1: "key,state" is not an id`,
		"id\n\"" + one + "\n":    "--ids:",
		`{"id":`:                 "neither an id nor a JSON object",
	} {
		if ids, err := cli.ReadIDs(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q has the ids %v and %v, want %s", text, ids, err, part)
		}
	}
}

// CSV has quotes where RFC 4180 wants them, and no cell that a spreadsheet calculates.
func TestCSV(t *testing.T) {
	t.Parallel()
	got, err := cli.CSV([]string{"EVENT ID", "TYPE"}, []string{`=HYPERLINK("http://evil")`, "a, b"}, []string{"-1", `say "no"`})
	if err != nil {
		t.Fatal(err)
	}
	if want := "event-id,type\n\"'=HYPERLINK(\"\"http://evil\"\")\",\"a, b\"\n'-1,\"say \"\"no\"\"\"\n"; got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}
