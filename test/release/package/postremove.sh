#!/bin/sh
# After the files are gone. The journal and the secrets stay until dpkg says "purge".
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
if [ "$1" = purge ]; then
  rm -rf /var/lib/relay /etc/relay
  if getent passwd relay >/dev/null; then userdel relay; fi
fi
