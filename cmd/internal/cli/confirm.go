package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// actorDefault says who decides where --actor does not; with --server it is the token.
const actorDefault = "(default $ONCEGATE_ACTOR, then $USER, then the user and host of this machine)"

// decision is who decides something and why, as the audit keeps it, and whether
// he is asked again.
type decision struct {
	actor, reason string
	yes           bool
}

// add gives a command the flags of a decision.
func (d *decision) add(cmd *cobra.Command) {
	d.addExplanation(cmd)
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do not ask for confirmation")
}

// addExplanation gives a command that asks nothing the flags of who decides and why.
func (d *decision) addExplanation(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.reason, "reason", "", "the reason, for the audit; required")
	cmd.Flags().StringVar(&d.actor, "actor", "", "who decides "+actorDefault)
}

// check fills in the actor, and refuses a decision without a reason; question is what the reason answers.
func (d *decision) check(s *shell, question string) error {
	if strings.TrimSpace(d.reason) == "" {
		return usagef("--reason is missing: %s It goes into the audit", question)
	}
	return d.fillActor(s)
}

// fillActor fills in the actor. A server knows who decides by the token.
func (d *decision) fillActor(s *shell) error {
	if s.server != "" {
		if d.actor != "" {
			return usagef("--actor does not go with --server: the audit names the token")
		}
		return nil
	}
	d.actor = cmp.Or(d.actor, s.env("ONCEGATE_ACTOR"), s.env("USER"), s.env("LOGNAME"), machineUser())
	return nil
}

// machineUser is who runs the program, as the operating system has it, and where: ann@mail. A container has no name for its user,
// but has the number.
func machineUser() string {
	name := "uid " + strconv.Itoa(os.Getuid())
	if known, err := user.Current(); err == nil && known.Username != "" {
		name = known.Username
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		name += "@" + host
	}
	name = oneLine(name)
	return strings.ToValidUTF8(name[:min(len(name), maxActor)], "")
}

// maxActor is how long the name of an actor may be, in bytes.
const maxActor = 128

// interactive reports whether there is somebody who can be asked.
func (s *shell) interactive() bool {
	in, ok := s.in.(*os.File)
	return ok && isTerminal(in)
}

// confirm has a word typed by somebody who has seen the facts: show writes them to
// the error stream. Nothing is asked with --yes; where nobody can be asked, it is
// required.
func (s *shell) confirm(d decision, word string, show func()) error {
	if d.yes {
		return nil
	}
	if !s.interactive() {
		return usagef("nobody can be asked here: add --yes")
	}
	show()
	fmt.Fprintf(s.err, "Type %s to go on: ", word)
	line, _ := bufio.NewReader(s.in).ReadString('\n')
	if strings.TrimSpace(line) != word {
		return &failure{text: "not confirmed; nothing was changed"}
	}
	return nil
}
