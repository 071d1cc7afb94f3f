package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

// asker asks questions at a terminal.
type asker struct {
	in  *bufio.Reader
	out io.Writer
}

// errNoAnswer means that the terminal ended before the questions did.
var errNoAnswer = errorf(errorcode.NotConfirmed, "no answer; nothing was written")

// ask asks until take accepts the answer. An error of take is shown, and the question is asked again.
func (a *asker) ask(question string, take func(answer string) error) error {
	for {
		fmt.Fprint(a.out, question+" ")
		line, err := a.in.ReadString('\n')
		if err != nil && strings.TrimSpace(line) == "" {
			return errNoAnswer
		}
		wrong := take(strings.TrimSpace(line))
		if wrong == nil {
			return nil
		}
		fmt.Fprintln(a.out, "  "+clean(oneLine(wrong.Error())))
	}
}

// askInit asks for what the flags do not say.
func (s *shell) askInit(f *initFlags) error {
	a := &asker{in: bufio.NewReader(s.in), out: s.err}
	cat := new(catalog.Lazy)
	err := a.ask("Which senders? Names such as: stripe github (`oncegate providers list` shows all)", func(answer string) error {
		names := strings.FieldsFunc(answer, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' })
		if len(names) == 0 {
			return errors.New("name at least one")
		}
		for _, name := range names {
			if cat.Provider(name) == nil {
				return unknownProvider(name, cat)
			}
		}
		f.providers = slices.Compact(names)
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range f.providers {
		if err := a.askSettings(cat.Provider(name), f); err != nil {
			return err
		}
	}
	if f.forward == "" && f.sql == "" {
		err := a.ask("Where is the service that gets the events, such as https://billing.example/hooks? Empty: events are only recorded", func(answer string) error {
			f.forward = answer
			return new(setup).target(*f)
		})
		if err != nil {
			return err
		}
	}
	if f.forward != "" && f.idempotent == "" {
		err := a.ask("Does it ignore a request whose Idempotency-Key it has seen? (yes or no; empty is no)", func(answer string) error {
			switch strings.ToLower(answer) {
			case "yes", "y", "true":
				f.idempotent = "true"
			case "no", "n", "false", "":
				f.idempotent = "false"
			default:
				return fmt.Errorf("%q is neither yes nor no", answer)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if f.publicURL != "" {
		return nil
	}
	return a.ask("At which address do senders reach this server, such as https://hooks.example.com? Empty if you do not know yet", func(answer string) error {
		_, err := publicAddress(answer)
		f.publicURL = answer
		return err
	})
}

// askSettings asks for each setting that a provider requires, unless a flag has set it.
func (a *asker) askSettings(p *providers.Provider, f *initFlags) error {
	specs := p.Spec().Settings
	for i := range specs {
		spec, prefix := &specs[i], p.Name()+"."+specs[i].Name+"="
		if !spec.Required || spec.Secret || slices.ContainsFunc(f.settings, func(text string) bool { return strings.HasPrefix(text, prefix) }) {
			continue
		}
		example := ""
		if len(spec.Example) > 0 {
			example = ", such as " + spec.Example[0]
		}
		err := a.ask(fmt.Sprintf("%s needs %s: %s%s", p.Spec().Title, spec.Name, spec.About, example), func(answer string) error {
			if answer == "" {
				return errors.New("it is required")
			}
			f.settings = append(f.settings, prefix+answer)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
