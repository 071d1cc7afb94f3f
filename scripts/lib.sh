# Common to the scripts; to be sourced by bash with the checkout as working directory.
# Works with the bash 3.2 of macOS.

# fail MESSAGE...: one clear line, and out.
fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# require_go: Go is the one thing that the scripts do not install.
require_go() {
  command -v go >/dev/null || fail "Go is not installed: get Go 1.26 or newer from https://go.dev/dl and put it on PATH"
  command -v git >/dev/null || fail "git is not installed: install it with your system's package manager"
}

# build_tool: builds the development tool that finds, makes and keeps PostgreSQL clusters.
build_tool() {
  mkdir -p .oncegate/bin
  CGO_ENABLED=0 go build -o .oncegate/bin/oncegate-postgres ./cmd/oncegate-postgres
}

# apt_usable: whether this is root on Debian, Ubuntu or a relative of theirs.
apt_usable() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

# apt_install PACKAGE...: without questions, without recommended packages, and without the cluster that Debian makes
# and starts by itself when it installs a PostgreSQL server.
apt_install() {
  local log=.oncegate/apt.log quiet=""
  mkdir -p .oncegate
  echo "installing $* (log: $log)"
  if [ ! -e /etc/postgresql-common/createcluster.d/oncegate.conf ]; then
    quiet=/etc/postgresql-common/createcluster.d/oncegate.conf
    mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" >"$quiet"
  fi
  if ! {
    DEBIAN_FRONTEND=noninteractive apt-get update -q &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
  } >"$log" 2>&1 </dev/null; then
    [ -z "$quiet" ] || rm -f "$quiet"
    tail -n 15 "$log" >&2
    echo "apt-get could not install $*; install them by hand, or see CONTRIBUTING.md for other ways" >&2
    return 1
  fi
  [ -z "$quiet" ] || rm -f "$quiet"
}

# has_chromium: whether there is a browser for the tests of the console.
has_chromium() {
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

# has_npm: whether there are Node and npm for the client of the API in TypeScript.
has_npm() {
  command -v node >/dev/null && command -v npm >/dev/null
}

# need_postgres: whether a PostgreSQL server must still be installed.
need_postgres() {
  ! .oncegate/bin/oncegate-postgres find >/dev/null 2>&1
}

# own_postgres: has PostgreSQL's programs found by what runs clusters of its own: behind all others on PATH if they were
# brought under .oncegate, which happens here if the machine has none.
own_postgres() {
  local programs
  build_tool || return 1
  if apt_usable && need_postgres; then apt_install postgresql || true; fi # what can still be done is said by the next command
  programs=$(.oncegate/bin/oncegate-postgres obtain) || return 1
  export PATH="$PATH:$programs"
}

# apt_install_stopped PACKAGE...: installs packages whose servers would start by themselves, without starting them.
apt_install_stopped() {
  local quiet="" installed=0
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    quiet=/usr/sbin/policy-rc.d
    printf '#!/bin/sh\nexit 101\n' >"$quiet"
    chmod 755 "$quiet"
  fi
  apt_install "$@" || installed=1
  [ -z "$quiet" ] || rm -f "$quiet"
  return "$installed"
}

# own_nats: has the distribution's nats-server; on Debian and Ubuntu root installs it.
own_nats() {
  command -v nats-server >/dev/null || ! apt_usable || apt_install_stopped nats-server || true # what is missing is said by the next line
  command -v nats-server >/dev/null || fail "there is no nats-server: install your distribution's package nats-server"
}

# own_pooler: has PgBouncer found by the tests that run one, likewise, and makes them fail instead of skip where there is
# one. It is never installed, since its package starts a server of its own.
own_pooler() {
  local programs
  if programs=$(.oncegate/bin/oncegate-postgres pooler 2>.oncegate/pooler.log); then
    export PATH="$PATH:$programs" REQUIRE_PGBOUNCER=1
  else
    echo "NOTE: no PgBouncer here (see .oncegate/pooler.log), so what happens behind a pooler is NOT tested; install it for the full check (macOS: brew install pgbouncer)"
  fi
}

# memory_dir: prints a directory in memory, of this process, for a cluster that nobody needs after it; nothing where there is too
# little memory, or no file system in it (macOS). What earlier processes left there that were killed is removed.
memory_dir() {
  local place=/dev/shm/oncegate-test-$(id -u) left free
  [ -w /dev/shm ] && [ -r /proc/meminfo ] || return 0
  for left in "$place".*; do
    if [ -d "$left" ] && ! kill -0 "${left##*.}" 2>/dev/null; then rm -rf "$left"; fi
  done
  free=$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')
  if [ "${free:-0}" -lt 4194304 ] || [ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -lt 8388608 ]; then return 0; fi
  mkdir -m 755 "$place.$$" && echo "$place.$$"
}
