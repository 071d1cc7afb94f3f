package cli

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/control"
)

// listenFlags are the flags of `oncegate listen`.
type listenFlags struct {
	to, forwardTo        string
	source, tenant, kind string
	since, from          string
	timeout              time.Duration
}

func (s *shell) listenCommand() *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use: "listen", Short: "Send the events of a running server to a program on this machine, too", Args: cobra.NoArgs,
		Long: "Send the events that a running server records to a program on this machine, too, and show the answers, until\n" +
			"Ctrl-C or SIGTERM. The server carries out its effects as always, and ignores the answers of the program. The\n" +
			"token needs read-payload, and the audit names each payload that listen reads.\n\n" +
			"Each event is posted at most once, in the order in which it was recorded, with the exact bytes of its body,\n" +
			"the headers that the server keeps, such as Content-Type, and Oncegate-Event, Oncegate-Event-Id,\n" +
			"Oncegate-Event-Type and Oncegate-Source. A failure is shown and not repeated. While the program takes no\n" +
			"connection, or the server does not answer, nothing is lost: listen waits and continues where it was.\n\n" +
			"It begins with the next event. --since begins earlier, and --from continues where another listen ended. With\n" +
			"--output json there is one object on each line.",
		Example: "  oncegate listen --server https://oncegate.internal:8081 --to 3000\n" +
			"  oncegate listen --server http://127.0.0.1:8081 --to 3000/webhooks --source stripe --type invoice.paid\n" +
			"  oncegate listen --to localhost:3000 --since 1h",
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "the `address` of the program: 3000 means http://localhost:3000, 3000/webhooks and complete addresses work too")
	flags.StringVar(&f.forwardTo, "forward-to", "", "the same as --to")
	flags.StringVar(&f.source, "source", "", "only this source")
	flags.StringVar(&f.tenant, "tenant", "", "only this tenant")
	flags.StringVar(&f.kind, "type", "", "only this event type")
	flags.StringVar(&f.since, "since", "", "also those received since: a duration before now (1h) or an instant")
	flags.StringVar(&f.from, "from", "", "continue where another listen ended, by the `cursor` that it printed")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "longest wait for one answer of the program")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		address, since, err := f.check()
		if err != nil {
			return err
		}
		return s.control(cmd.Context(), "", func(caller control.Caller) error {
			t := newTail(caller, tailFilter{source: f.source, tenant: f.tenant, kind: f.kind})
			if f.from != "" && !t.resume(f.from) {
				return usagef("--from %q is not a cursor that `oncegate listen` printed", clean(f.from))
			}
			if f.from == "" {
				t.floor = since
			}
			l := &listener{s: s, caller: caller, address: address, client: localClient(f.timeout)}
			t.event = l.event
			fmt.Fprintf(s.err, "oncegate: events go to %s; their effects on the server are not touched\n", cleanURL(address))
			return s.followTail(cmd.Context(), t, f.from == "" && since.IsZero(), "posts")
		})
	}
	return cmd
}

// check returns where the events go, and since when.
func (f *listenFlags) check() (address string, since time.Time, err error) {
	switch {
	case f.to == "" && f.forwardTo == "":
		return "", since, usagef("--to is missing: say where the events go, such as --to 3000")
	case f.to != "" && f.forwardTo != "":
		return "", since, usagef("--to and --forward-to are the same: leave one out")
	case f.from != "" && f.since != "":
		return "", since, usagef("--from and --since exclude each other")
	case f.timeout <= 0:
		return "", since, usagef("--timeout %s: must be longer than nothing", f.timeout)
	}
	flag := "--to"
	if f.to == "" {
		flag = "--forward-to"
	}
	if address, err = localAddress(flag, cmp.Or(f.to, f.forwardTo)); err != nil {
		return "", since, err
	}
	since, err = parseInstant("--since", f.since)
	return address, since, err
}
