package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/sleep"
)

// awaitKnown is the interval at which awaitKey checks whether the processes have a new key.
const awaitKnown = 500 * time.Millisecond

func addWait(cmd *cobra.Command, wait *time.Duration) {
	cmd.Flags().DurationVar(wait, "wait", 30*time.Second, "how long to wait for the running processes to take the key up")
}

func checkWait(wait time.Duration) error {
	if wait < 0 {
		return usagef("--wait %s: must not be negative", wait)
	}
	return nil
}

// awaitKey waits until every live process has the key, and returns an error if one does not get it
// in time. For that error, what says what was not done, and hint says what to do.
func (s *shell) awaitKey(ctx context.Context, key seal.Key, wait time.Duration, what, hint string) error {
	for _, member := range s.of("").members() { // processes register in the databases that they serve
		if err := member.awaitKeyIn(ctx, key, wait, what, hint); err != nil {
			return err
		}
	}
	return nil
}

// awaitKeyIn is awaitKey for the processes of the shell's database.
func (s *shell) awaitKeyIn(ctx context.Context, key seal.Key, wait time.Duration, what, hint string) error {
	pool, err := s.openPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for told := false; ; {
		lacking, err := lackingNodes(ctx, pool, key)
		if err != nil || len(lacking) == 0 {
			return err
		}
		if !told && wait > 0 && s.output == "table" {
			fmt.Fprintf(s.err, "oncegate: waiting for %s to take up key %d\n", nodeNames(lacking), key.ID)
			told = true
		}
		if sleep.For(timed, awaitKnown) != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return errorf(errorcode.WrongState, "%s: %s %s not have key %d: %s", what, nodeNames(lacking), plainVerb(len(lacking)), key.ID, hint)
		}
	}
}

func plainVerb(n int) string {
	if n == 1 {
		return "does"
	}
	return "do"
}

func lackingNodes(ctx context.Context, pool *pgxpool.Pool, key seal.Key) ([]node.Row, error) {
	nodes, err := node.List(ctx, pool)
	if err != nil {
		return nil, err
	}
	return node.Lacking(nodes, key), nil
}

// unsealing returns an error if a process seals with the key, or may have done so recently.
func (s *shell) unsealing(ctx context.Context, id int32) error {
	for _, member := range s.of("").members() {
		if err := member.unsealingIn(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// unsealingIn is unsealing for the processes of the shell's database.
func (s *shell) unsealingIn(ctx context.Context, id int32) error {
	pool, err := s.openPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	nodes, err := node.List(ctx, pool)
	if err != nil {
		return err
	}
	sealing := node.Sealing(nodes, id)
	if len(sealing) == 0 {
		return nil
	}
	n := &sealing[0]
	switch {
	case n.ActiveKey != id:
		return errorf(errorcode.WrongState, "%s sealed with key %d less than a minute ago: try again in a minute, after `oncegate keys reseal`", n, id)
	case !n.Live:
		return errorf(errorcode.WrongState, "%s sealed with key %d, was heard of %s and did not say that it stopped: wait until it has been silent for 10 minutes", n, id, ago(n.Silent))
	}
	return errorf(errorcode.WrongState, "%s still seals with key %d: bring it the keyring whose active key is another one", nodeNames(sealing), id)
}
