package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/internal/control"
)

// pauseCommands returns the commands that pause and resume a source or a target.
func (s *shell) pauseCommands(pauseIt, resumeIt *control.Operation[control.PauseRequest, control.PauseState], kind pause.Kind, effect string) []*cobra.Command {
	pauses := newDecision(s, pauseIt, pauseCommand(string(kind), "<name>", effect))
	resumes := newDecision(s, resumeIt, resumeCommand(string(kind), "<name>"))
	for _, d := range []*decisionCommand[control.PauseRequest, control.PauseState]{pauses, resumes} {
		d.check = func(args []string) error { d.request.Name = args[0]; return nil }
		d.on.settings, d.done = (*shell).optionalConfig, s.showPause
	}
	return []*cobra.Command{pauses.Command, resumes.Command}
}

// routePauseCommands returns the commands that pause and resume a route.
func (s *shell) routePauseCommands() []*cobra.Command {
	pauses := newDecision(s, &control.PauseRoute, pauseCommand("route", "<source>/<route>", effectsWait))
	resumes := newDecision(s, &control.ResumeRoute, resumeCommand("route", "<source>/<route>"))
	for _, d := range []*decisionCommand[control.PauseRouteRequest, control.PauseState]{pauses, resumes} {
		d.check = func(args []string) (err error) {
			d.request.Source, d.request.Route, err = parseRoute(args[0])
			return err
		}
		d.done = s.showPause
	}
	return []*cobra.Command{pauses.Command, resumes.Command}
}

// effectsWait says what a paused route or target means.
const effectsWait = "Its effects wait and use up no attempts. They keep their order. A replay waits too. Attempts under\n" +
	"way finish. The pause reaches all processes within two seconds. The deadline of a route continues\n" +
	"during the pause."

// sourceWaits says what a paused source means.
const sourceWaits = "It answers all deliveries with 503 and Retry-After and records nothing, so the sender delivers again\n" +
	"later. The effects of recorded events continue: pause a route or a target to stop those.\n" +
	"`oncegate providers show` says for how long a provider tries again. The pause reaches all processes\n" +
	"within two seconds."

func pauseCommand(kind, arg, effect string) *cobra.Command {
	return &cobra.Command{
		Use: "pause " + arg, Short: "Pause a " + kind + " while everything runs", Args: cobra.ExactArgs(1),
		Long: "Pause a " + kind + " until an operator resumes it. A restart does not end the pause.\n" + effect + "\n" +
			"If it is paused already, the command changes nothing and shows that pause.",
	}
}

func resumeCommand(kind, arg string) *cobra.Command {
	return &cobra.Command{
		Use: "resume " + arg, Short: "Resume a paused " + kind, Args: cobra.ExactArgs(1),
		Long: "Resume a paused " + kind + ". If it is not paused, the command changes nothing.",
	}
}

func (s *shell) showPause(out *control.PauseState) error {
	if out.Paused == nil {
		return s.print("%s is not paused", out.Words())
	}
	return s.print("%s is %s", out.Words(), pausedText(out.Paused))
}

// pausedText says since when something is paused, by whom and why.
func pausedText(p *pause.Pause) string {
	return "paused since " + clock(p.Since) + " by " + p.By + ": " + p.Reason
}

// resumeText is the command that ends a pause.
func resumeText(p *pause.Pause) string {
	return string(p.Kind) + "s resume " + clean(p.Name)
}

// pausedLine is [pausedText] for a line of a page. It is empty if p is nil.
func pausedLine(p *pause.Pause) string {
	if p == nil {
		return ""
	}
	return clean(pausedText(p))
}

// pauseCell is the cell of a list that says who has paused a row. It is empty if the row is not paused.
func pauseCell(p *pause.Pause) string {
	if p == nil {
		return ""
	}
	return string(p.Kind) + " by " + p.By
}

// parseRoute splits the argument that names a route.
func parseRoute(arg string) (source, route string, err error) {
	source, route, ok := strings.Cut(arg, "/")
	if !ok || source == "" || route == "" {
		return "", "", usagef("%q is not a route: write <source>/<route>; `oncegate routes list` shows them", clean(arg))
	}
	return source, route, nil
}
