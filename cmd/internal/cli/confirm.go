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

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
)

// actorDefault describes the default of --actor. With --server, the token determines the actor.
const actorDefault = "(default $ONCEGATE_ACTOR, then $USER, then the user and host of this machine)"

// decision is the actor and the reason of a decision, as the audit records them, and whether the
// user has already confirmed it.
type decision struct {
	actor, reason string
	yes           bool
}

// add adds the flags of a decision to a command.
func (d *decision) add(cmd *cobra.Command) {
	d.addExplanation(cmd)
	d.addYes(cmd)
}

func (d *decision) addYes(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do not ask for confirmation")
}

// addExplanation adds the flags for actor and reason to a command that does not ask for
// confirmation.
func (d *decision) addExplanation(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.reason, "reason", "", "the reason, for the audit; required")
	cmd.Flags().StringVar(&d.actor, "actor", "", "who decides "+actorDefault)
}

// check sets the actor and requires a reason. question is the question that the reason answers.
func (d *decision) check(s *shell, question string) error {
	if strings.TrimSpace(d.reason) == "" {
		return errorf(errorcode.ReasonMissing, "--reason is missing: %s It goes into the audit", question)
	}
	return d.fillActor(s)
}

// fillActor sets the actor. A server determines the actor from the token.
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

// machineUser returns the operating system's user and the host, as in ann@mail. In a container the
// user may have no name; the result then contains the user's number.
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

// maxActor is the maximum length of an actor's name, in bytes.
const maxActor = 128

// interactive reports whether stdin is a terminal, so that the command can ask the user.
func (s *shell) interactive() bool {
	in, ok := s.in.(*os.File)
	return ok && isTerminal(in)
}

// confirm asks the user to type a word after show has written the facts to stderr. With --yes it
// does not ask. Without a terminal, --yes is required.
func (s *shell) confirm(d decision, word string, show func()) error {
	if d.yes {
		return nil
	}
	if !s.interactive() {
		return errorf(errorcode.ConfirmationMissing, "there is no terminal to ask at: add --yes")
	}
	show()
	fmt.Fprintf(s.err, "Type %s to continue: ", word)
	line, _ := bufio.NewReader(s.in).ReadString('\n')
	if strings.TrimSpace(line) != word {
		return errorf(errorcode.NotConfirmed, "not confirmed; nothing was changed")
	}
	return nil
}

// warn writes a line that the user reads before confirming.
func (s *shell) warn(text string) { _, _ = fmt.Fprintln(s.err, clean(text)) }

// print writes a line for a person.
func (s *shell) print(format string, args ...any) error {
	_, err := fmt.Fprintln(s.out, clean(fmt.Sprintf(format, args...)))
	return err
}
