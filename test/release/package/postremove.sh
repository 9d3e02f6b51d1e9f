#!/bin/sh
# After the files are gone. The journal and the secrets stay until dpkg says "purge".
set -e
if [ -d /run/systemd/system ]; then
  # An upgrade that was interrupted is purged without the script that stops and disables it.
  if [ "$1" = purge ]; then systemctl stop relay 2>/dev/null || true; fi
  systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
  rm -rf /var/lib/relay /etc/relay /etc/systemd/system/multi-user.target.wants/relay.service
  # Not somebody who has the same name.
  if getent passwd relay | grep -q ':/var/lib/relay:'; then userdel relay; fi
fi
