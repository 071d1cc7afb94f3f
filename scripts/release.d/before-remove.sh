#!/bin/sh
# Stops the service when the package goes away, and not when it is upgraded: the operator restarts it, after the migration.
set -e
case ${1:-} in
  remove | 0) if [ -d /run/systemd/system ]; then systemctl disable --now oncegate.service oncegate-migrate.service; fi ;;
esac
