#!/bin/sh
# After the files are gone. The journal and the secrets stay until dpkg says "purge".
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
if [ "$1" = purge ]; then
  rm -rf /var/lib/relay /etc/relay
  # Not somebody who has the same name.
  if getent passwd relay | grep -q ':/var/lib/relay:'; then userdel relay; fi
fi
