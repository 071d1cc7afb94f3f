package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) targetsTestCommand() *cobra.Command {
	var d decision
	var ask control.TestTargetRequest
	cmd := &cobra.Command{
		Use: "test <name>", Short: "Send a test event to the test address of a target", Args: cobra.ExactArgs(1),
		Long: "Send a test event to the test_url of a target of kind forward and show the answer. The request is made as\n" +
			"an attempt is: with the target's method, headers, timeout and signatures, and with an idempotency key. It also\n" +
			"carries Oncegate-Test. If the target is idempotent, the same key is sent twice: the target must recognise it,\n" +
			"or give the same answer.\n\n" +
			"No event is recorded, and the breaker, the rate and the metrics of the target ignore the test. With --server\n" +
			"the server sends it, otherwise this command does.\n\n" +
			"Exits with 0 if the target accepted the event and with 1 if it did not, or if it answered the same key\n" +
			"differently.",
		Example: "  oncegate targets test billing --reason 'a new signing secret'\n" +
			"  oncegate targets test billing --body '{\"id\": \"in_1\"}' --server http://127.0.0.1:8081",
		RunE: func(cmd *cobra.Command, args []string) error {
			ask.Name = args[0]
			if err := d.check(s, control.TestTarget.Why); err != nil {
				return err
			}
			ask.Reason = d.reason
			return s.controlWith(cmd.Context(), onDatabase{actor: d.actor, settings: (*shell).servedConfig}, func(caller control.Caller) error {
				found, err := control.Call(cmd.Context(), caller, &control.TestTarget, ask)
				if err != nil {
					return refusedRequest(err)
				}
				if err := shown(s, &found, s.showTargetTest); err != nil {
					return err
				}
				if !found.Passed {
					return errorf(errorcode.CheckFailed, "target %s did not pass the test", clean(found.Target))
				}
				return nil
			})
		},
	}
	requestFlags(cmd, &ask)
	d.addExplanation(cmd)
	return cmd
}

func (s *shell) showTargetTest(t *control.TargetTest) error {
	signed := "no: the target has no sign"
	if t.Signed {
		signed = "yes"
	}
	pairs := []pair{{"target", t.Target}, {"sent to", t.Address}, {"event id", t.ID}, {"key", t.Key}, {"signed", signed}}
	for i := range t.Answers {
		a := &t.Answers[i]
		name := "answer"
		if i > 0 {
			name = "same key again"
		}
		pairs = append(pairs, pair{name, answerLine(a)})
		if a.Excerpt != "" {
			pairs = append(pairs, pair{"body", clean(firstLine(a.Excerpt))})
		}
	}
	if said := t.Repeat.Meaning(); said != "" {
		pairs = append(pairs, pair{"repeat", said})
	}
	page(s.out, pairs)
	return nil
}

// answerLine says in one line what a target answered.
func answerLine(a *control.TargetAnswer) string {
	parts := []string{a.Code}
	if a.Code == "" {
		parts = []string{"none"}
	}
	if a.Cause != "" {
		parts = append(parts, clean(a.Cause))
	}
	meaning := "an effect would be " + a.Outcome
	if a.Reason != "" {
		meaning += " (" + a.Reason + ")"
	}
	return strings.Join(append(parts, fmt.Sprintf("after %d ms", a.Milliseconds), meaning), ", ")
}

// firstLine returns the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
