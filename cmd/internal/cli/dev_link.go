package cli

import (
	"context"
	"fmt"
	"net"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/session"
)

// devLink gives an address that logs in to the console of `oncegate dev` once: there is no password, so
// no default one either. It is empty where other machines reach the private listener: whoever reads the
// terminal there is not whoever may log in.
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
