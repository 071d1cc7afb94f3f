package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the unprivileged account that runs the server when this process is root. A nil account
// means that the server runs as the current user.
type account struct {
	name     string
	uid, gid int
}

// serverAccount returns the account that runs the server. It returns nil unless this process is
// root.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil means the current user
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("reading account %s: %w", name, err)
		}
		return &account{name: name, uid: uid, gid: gid}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root and there is no account postgres or nobody to run it as: make one, or work as an ordinary user")
}

// attributes makes a child process run as the account and in a new session, so that Ctrl-C in the
// terminal reaches only the process that started the server and not the server.
func (a *account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// own changes the owner of one of our files or directories to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// reaches reports whether the account can enter dir, which requires that every directory on the way
// lets others through. For a directory that does not exist yet, the nearest existing parent
// decides, because we can set the permissions of the directories that we create.
func (a *account) reaches(dir string) bool {
	if a == nil {
		return true
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false
		}
		owner, _ := info.Sys().(*syscall.Stat_t)
		switch {
		case owner != nil && int(owner.Uid) == a.uid && info.Mode()&0o100 != 0:
		case info.Mode()&0o001 != 0:
		default:
			return false
		}
	}
	return true
}
