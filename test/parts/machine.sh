#!/bin/sh
# Becomes the first process of a machine of its own: this one's files, of which a
# copy is written to, no network but loopback, and systemd, that starts nothing
# by itself. Run in new namespaces; $1 is an empty directory. What is mounted ends
# with the namespaces.
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
# No unit that this machine's administrator has enabled, and no settings of the kernel.
rm -rf etc/systemd/system/* usr/lib/sysctl.d/* etc/sysctl.d/* lib/modules-load.d/* etc/modules-load.d/*
: >etc/machine-id
# A file system of this machine that is none of this one's.
printf '' >etc/fstab
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  : >dev/$device
  mount --bind /dev/$device dev/$device
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
cat >etc/systemd/system/machine.target <<'END'
[Unit]
DefaultDependencies=no
Requires=sysinit.target
After=sysinit.target
END
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
# systemd hands mounts to services by this, and in a container expects it done.
mount --make-rshared /
# As a container: without what would reach past the namespaces.
exec env -i container=other PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --bounding-set -sys_module,-sys_time,-sys_boot,-sys_rawio,-syslog,-wake_alarm,-mac_admin,-mac_override \
  /lib/systemd/systemd --system --unit=machine.target --show-status=0 --log-target=journal
