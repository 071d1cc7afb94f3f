package cli_test

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/internal/control"
)

// Every field of a request that declares a flag has a type that a flag can set, and the flag has a name and a help.
func TestFlagsOfRequests(t *testing.T) {
	t.Parallel()
	name, declared := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`), 0
	for _, operation := range control.Operations() {
		about := operation.Describe()
		if about.Request.Kind() != reflect.Struct {
			continue
		}
		cmd := &cobra.Command{}
		cli.RequestFlags(cmd, reflect.New(about.Request).Interface())
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			declared++
			if !name.MatchString(flag.Name) || flag.Usage == "" {
				t.Errorf("%s declares the flag %q with the help %q", about.ID, flag.Name, flag.Usage)
			}
		})
		for _, f := range reflect.VisibleFields(about.Request) {
			if tag, ok := f.Tag.Lookup("flag"); ok && tag[:2] != "--" {
				t.Errorf("%s: the tag of %s does not begin with the name of a flag: %s", about.ID, f.Name, tag)
			}
		}
	}
	if declared < 50 {
		t.Errorf("only %d flags were found", declared)
	}
}
