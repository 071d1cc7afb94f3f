package cli

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncegate/oncegate/inbox"
)

// requestFlags adds a flag for each field of a request, or of a part of one, that declares a flag in its tag, as in
// `flag:"--source only this source"`. The tag of an embedded struct is for its first field, and two quotation marks
// enclose the name of the value. request is a pointer to a struct. The returned function sets the fields whose flags
// have to be parsed, and checks the words that [restrict] restricts.
func requestFlags(cmd *cobra.Command, request any) (read func() error) {
	var reads []func() error
	flags, value := cmd.Flags(), reflect.ValueOf(request).Elem()
	for _, f := range reflect.VisibleFields(value.Type()) {
		tag, ok := f.Tag.Lookup("flag")
		if !ok {
			continue
		}
		name, help, _ := strings.Cut(strings.TrimPrefix(tag, "--"), " ")
		help = strings.ReplaceAll(help, "''", "`")
		tagged := value.FieldByIndex(f.Index)
		if f.Anonymous {
			tagged = tagged.Field(0)
		}
		switch field := tagged.Addr().Interface().(type) {
		case *bool:
			flags.BoolVar(field, name, false, help)
		case *string:
			flags.StringVar(field, name, "", help)
		case *int:
			flags.IntVar(field, name, *field, help)
		case *float32:
			flags.Float32Var(field, name, 0, help)
		case *time.Duration:
			flags.DurationVar(field, name, *field, help)
		case *[]string:
			flags.StringSliceVar(field, name, *field, help)
		case *time.Time:
			text := flags.String(name, "", help+instantHelp(name))
			reads = append(reads, func() (err error) { *field, err = parseInstant("--"+name, *text); return err })
		case *inbox.ID:
			text := flags.String(name, "", help)
			reads = append(reads, func() (err error) { *field, err = parseIDFlag(name, *text); return err })
		default: // a string type
			text := flags.String(name, "", help)
			reads = append(reads, func() error { tagged.SetString(*text); return nil })
		}
	}
	return func() (err error) {
		flags.VisitAll(func(f *pflag.Flag) { err = cmp.Or(err, checkKnown(f)) })
		if err != nil {
			return err
		}
		for _, read := range reads {
			if err := read(); err != nil {
				return err
			}
		}
		return checkPeriod(value)
	}
}

// instantHelp explains the values of a flag that takes a time.
func instantHelp(flag string) string {
	if flag == "until" {
		return ": a duration before now or an instant"
	}
	return ": a duration before now (2h, 7d) or an instant (2026-11-20T12:00:00Z)"
}

// checkPeriod refuses a request whose Until is before its Since.
func checkPeriod(request reflect.Value) error {
	from, to := request.FieldByName("Since"), request.FieldByName("Until")
	if !from.IsValid() || !to.IsValid() {
		return nil
	}
	if since, until := from.Interface().(time.Time), to.Interface().(time.Time); !until.IsZero() && until.Before(since) {
		return usagef("--until is before --since: nothing could match")
	}
	return nil
}

func parseIDFlag(kind, text string) (id inbox.ID, err error) {
	if text == "" {
		return id, nil
	}
	if id, err = inbox.ParseID(text); err != nil {
		return id, usagef("--%s %q is not our id of an %s; `oncegate %ss list` shows them in the column ID", kind, clean(text), kind, kind)
	}
	return id, nil
}

// knownWords is the annotation of a flag that takes only some words.
const knownWords = "known"

// restrict restricts a flag to some words. They complete a help that ends in a colon.
func restrict(cmd *cobra.Command, name string, words []string) {
	flag := cmd.Flags().Lookup(name)
	flag.Annotations = map[string][]string{knownWords: words}
	if strings.HasSuffix(flag.Usage, ":") {
		flag.Usage += " " + strings.Join(words, ", ")
	}
}

// checkKnown returns an error if a flag takes only known words and its value is another one.
func checkKnown(flag *pflag.Flag) error {
	words, restricted := flag.Annotations[knownWords]
	if word := flag.Value.String(); restricted && word != "" && !slices.Contains(words, word) {
		return usagef("--%s %q is unknown; known are %s", flag.Name, clean(word), strings.Join(words, ", "))
	}
	return nil
}
