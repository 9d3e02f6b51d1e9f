#!/bin/sh
# After the files are there. dpkg says "configure"; rpm says how many versions
# there are: 1, or 2 in an upgrade.
set -e
case "$1" in
  configure | 1 | 2) ;;
  *) exit 0 ;;
esac

if ! getent passwd relay >/dev/null; then
  # A purge leaves the group if it has members.
  if getent group relay >/dev/null; then group="--gid relay"; else group=--user-group; fi
  useradd --system $group --home-dir /var/lib/relay --no-create-home --shell /usr/sbin/nologin relay
fi
# Without it any user of this machine could pause a sink. Members of the group may.
if [ ! -e /etc/relay/admin-token ]; then
  (umask 077 && head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n' >/etc/relay/admin-token)
  chgrp relay /etc/relay/admin-token
  chmod 640 /etc/relay/admin-token
fi
# /var/lib/relay is made by the unit's StateDirectory, which also takes over what
# a relay with another user left there.

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if systemctl --quiet is-active relay; then
    # A restart with a config that the new version refuses would end the service.
    if relay validate --offline -c /etc/relay/relay.config.json >/dev/null; then
      # The running one may be of a version without "relay restart", or refuse it.
      relay restart -c /etc/relay/relay.config.json >/dev/null 2>&1 || systemctl restart relay || echo "relay: it did not start again; \`journalctl -u relay\` says why" >&2
    else
      echo "relay: this version refuses the config, so the one before still runs; mend it, then \`systemctl restart relay\`" >&2
    fi
  fi
fi

if ! systemctl --quiet is-enabled relay 2>/dev/null; then
  cat <<'END'
relay: it does not run by itself yet.
  Put the webhook's signing secret into /etc/relay/secrets/scheduling, and say in
  /etc/relay/relay.config.json where events go. Then: systemctl enable --now relay
  After that, "relay trigger appointment.created" sends a signed event, and
  /usr/share/doc/relay/docs/operations/install.md says what comes next.
END
fi
