package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// RunMain is the main function of a trial that is a program. run gets the arguments, and a context that SIGINT and
// SIGTERM end. The program exits with 0 if everything was kept, with 1 if something was broken, and with 2 if the trial
// could not be run.
func RunMain(name string, run func(ctx context.Context, args []string) (broken bool, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	broken, err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(2)
	case broken:
		os.Exit(1)
	}
}
