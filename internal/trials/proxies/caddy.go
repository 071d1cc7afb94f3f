package proxies

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

func caddy() *proxy {
	file := func(p *places) string { return filepath.Join(p.dir, "Caddyfile") }
	return &proxy{
		shipped: "deploy/caddy/Caddyfile", program: "/usr/bin/caddy", stop: syscall.SIGTERM,
		args: func(p *places) []string { return []string{"run", "--config", file(p), "--adapter", "caddyfile"} },
		configure: func(p *places, replaced ...replacement) error {
			return adapt("deploy/caddy/Caddyfile", file(p), append(replaced,
				// A certificate of a file instead of one that Caddy gets, and a port for its redirection from HTTP.
				replacement{"admin 127.0.0.1:2019", "admin 127.0.0.1:" + p.control + "\n\thttp_port " + p.plain + "\n\tdefault_bind 127.0.0.1"},
				replacement{"hooks.example.com {", "https://localhost:" + p.front + " {\n\ttls " + p.certificate + " " + p.key},
				replacement{"10.0.0.11:8080", firstReceiver + ":" + p.public},
				replacement{"10.0.0.12:8080", secondReceiver + ":" + p.public},
				replacement{"health_port 8081", "health_port " + p.private},
			))
		},
		reload: func(ctx context.Context, p *places, _ *rig.Process) error {
			// --force, because the file has not changed.
			out, err := lab.RunCommand(ctx, []string{"HOME=" + p.dir}, time.Minute, "/usr/bin/caddy", "reload", "--force", "--config", file(p), "--adapter", "caddyfile")
			if err == nil && out.ExitCode != 0 {
				err = fmt.Errorf("caddy reload exited with %d: %s", out.ExitCode, out.Stderr)
			}
			return err
		},
	}
}
