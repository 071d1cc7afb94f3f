package proxies

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// nginxMain includes the shipped file, as nginx.conf of the distribution does. The paths are the campaign's.
const nginxMain = `daemon off;
user root;
worker_processes 2;
pid %[1]s/nginx.pid;
error_log %[1]s/front.log;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
    include %[1]s/oncegate.conf;
}
`

func nginx() *proxy {
	return &proxy{
		shipped: "deploy/nginx/oncegate.conf", program: "/usr/sbin/nginx", reload: signal(syscall.SIGHUP), stop: syscall.SIGQUIT,
		args: func(p *places) []string { return []string{"-c", filepath.Join(p.dir, "nginx.conf")} },
		configure: func(p *places, replaced ...replacement) error {
			if err := os.WriteFile(filepath.Join(p.dir, "nginx.conf"), fmt.Appendf(nil, nginxMain, p.dir), 0o600); err != nil {
				return fmt.Errorf("writing nginx.conf: %w", err)
			}
			return adapt("deploy/nginx/oncegate.conf", filepath.Join(p.dir, "oncegate.conf"), append(replaced,
				replacement{"listen 443 ssl", "listen 127.0.0.1:" + p.front + " ssl"},
				replacement{"/etc/oncegate/tls/hooks.example.com.pem", p.certificate},
				replacement{"/etc/oncegate/tls/hooks.example.com.key", p.key},
				replacement{"hooks.example.com", "localhost"},
				replacement{"10.0.0.11:8080", firstReceiver + ":" + p.public},
				replacement{"10.0.0.12:8080", secondReceiver + ":" + p.public},
			))
		},
	}
}
