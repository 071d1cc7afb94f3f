package cli

import (
	"context"
	"fmt"
	"net"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
)

// devLink returns an address that logs in to the console of `oncegate dev` once, because there are
// no passwords. It returns "" if other machines can reach the private listener, because a person
// who can read the terminal there may not be allowed to log in.
func (s *shell) devLink(ctx context.Context, cfg *config.Config, admin net.Addr) (string, error) {
	if !onlyHere(admin) {
		return "", nil
	}
	pool, err := session.OpenPool(ctx, cfg.Database.URL, cfg.Database.Schema, session.PoolAdmin, 1)
	if err != nil {
		return "", fmt.Errorf("making a link to the console: %w", err)
	}
	defer pool.Close()
	service, err := control.NewService(control.Config{Pool: pool})
	if err != nil {
		return "", fmt.Errorf("making a link to the console: %w", err)
	}
	caller := &control.Local{Service: service, Access: control.Everything("dev")}
	link, err := control.Call(ctx, caller, &control.CreateLoginLink, control.CreateLoginLinkRequest{})
	if err != nil {
		return "", fmt.Errorf("making a link to the console: %w", err)
	}
	return access.LinkAddress("http://"+reachable(admin), link.Code), nil
}
