package cli

import (
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) notificationsCommand() *cobra.Command {
	return group("notifications", "List what operators are told, or send a test message", s.notificationsListCommand(), s.notificationsTestCommand())
}

func (s *shell) notificationsListCommand() *cobra.Command {
	return newList(s, &control.ListNotifications, &notificationColumns, &cobra.Command{
		Short: "List what waits for an operator, and when operators were told",
		Long: "List what waits for an operator as of the last look, which is at most half a minute old. SEEN is the first\n" +
			"look that saw it. A thing without TOLD has not waited for as long as notifications.fold yet. A thing that\n" +
			"is GONE comes back, or is over after notifications.settle; operators are told that too.\n\n" +
			"The list is empty unless the configuration has notifications.source. `oncegate status` shows what waits in\n" +
			"any case.",
	}).Command
}

var notificationColumns = columns[control.Notification]{
	header: []string{"KIND", "NAME", "COUNT", "SINCE", "WHAT", "SEEN", "TOLD", "GONE"},
	extra:  []string{"NAME", "COUNT", "SINCE"}, spare: []string{"SEEN"}, whole: []string{"KIND", "TOLD", "GONE"},
	cells: func(n *control.Notification) []any {
		return []any{string(n.Kind), n.Name, n.Count, n.Since, n.Text, n.OpenedAt, n.ToldAt, n.GoneAt}
	},
}

func (s *shell) notificationsTestCommand() *cobra.Command {
	d := newDecision(s, &control.TestNotifications, &cobra.Command{
		Use: "test", Short: "Send a test message the way that notifications take", Args: cobra.NoArgs,
		Long: "Send a test message the way that notifications take: it is emitted to the source that notifications.source\n" +
			"names, and the routes of that source carry it on. The type of the event is attention.test. A route with\n" +
			"`types` takes it only if they match.",
	})
	d.on.settings = (*shell).optionalConfig
	d.done = func(out *control.TestedNotifications) error {
		return s.print("emitted %s to source %s: `oncegate effects list --source %s --since 5m` shows whether it arrived", clean(out.EventID), clean(out.Source), clean(out.Source))
	}
	return d.Command
}
