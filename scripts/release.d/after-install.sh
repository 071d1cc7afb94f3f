#!/bin/sh
# Makes the user of the service, and tells systemd about its units. Nothing is started or enabled: Oncegate needs a database first.
set -e
if ! getent passwd oncegate >/dev/null; then
  if command -v useradd >/dev/null; then
    useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin oncegate
  else
    adduser --system --group --home /nonexistent --no-create-home oncegate
  fi
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
