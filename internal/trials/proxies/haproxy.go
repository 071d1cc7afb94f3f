package proxies

import (
	"path/filepath"
	"syscall"
)

func haproxy() *proxy {
	file := func(p *places) string { return filepath.Join(p.dir, "haproxy.cfg") }
	return &proxy{
		shipped: "deploy/haproxy/haproxy.cfg", program: "/usr/sbin/haproxy", reload: signal(syscall.SIGUSR2), stop: syscall.SIGTERM,
		args: func(p *places) []string { return []string{"-W", "-f", file(p)} },
		configure: func(p *places, replaced ...replacement) error {
			return adapt("deploy/haproxy/haproxy.cfg", file(p), append(replaced,
				replacement{"bind :443 ssl", "bind 127.0.0.1:" + p.front + " ssl"},
				replacement{"/etc/oncegate/tls/hooks.example.com.pem", p.both},
				replacement{"10.0.0.11:8080 addr 10.0.0.11 port 8081", firstReceiver + ":" + p.public + " addr " + firstReceiver + " port " + p.private},
				replacement{"10.0.0.12:8080 addr 10.0.0.12 port 8081", secondReceiver + ":" + p.public + " addr " + secondReceiver + " port " + p.private},
			))
		},
	}
}
