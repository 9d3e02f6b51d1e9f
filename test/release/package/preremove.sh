#!/bin/sh
# Before the files go, and not in an upgrade: there dpkg says "upgrade" and rpm 1.
set -e
case "$1" in
  remove | 0)
    if [ -d /run/systemd/system ]; then systemctl stop relay || true; fi
    if command -v systemctl >/dev/null; then systemctl --quiet disable relay || true; fi
    ;;
esac
