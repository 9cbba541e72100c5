#!/usr/bin/env bash
# Runs a command where `rsh localhost` and `ssh localhost` work and a host is dead, and leaves the machine as it was.
#
#   remote_shells.sh DIRECTORY COMMAND [ARGUMENT...]
#
# As root: in network and mount namespaces of its own, where 127.0.0.1 is nobody else's. There a private sshd and, where Debian's
# rsh-redone-server (or another in.rshd) is, an rshd wait; root's home is DIRECTORY/home; what is sent to 192.0.2.2 vanishes without a word.
# DIRECTORY is an empty one for keys and the like. RSHD says whether there is an rshd (yes, no).
set -euo pipefail

if [ "${1:-}" != --inside ]; then
    [ $# -ge 2 ] || { sed -n 2,8p "$0" >&2; exit 2; }
    [ "$(id -u)" -eq 0 ] || { echo "remote_shells: needs root: it makes namespaces" >&2; exit 1; }
    # With a name space of processes as well, so that nobody stays behind.
    exec unshare --net --mount --pid --fork --mount-proc --kill-child "$0" --inside "$@"
fi
directory=$(cd "$2" && pwd -P)
shift 2
home=$directory/home
mkdir -p "$home/.ssh"
chmod 700 "$home" "$home/.ssh"
ip link set lo up
# A cable whose other end takes everything and answers nothing.
ip link add silent type veth peer name dark
ip addr add 192.0.2.1/24 dev silent
ip link set silent up
ip link set dark up
ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev silent

sed "s#^root:\(.*\):[^:]*:\([^:]*\)\$#root:\1:$home:\2#" /etc/passwd >"$directory/passwd"
mount --bind "$directory/passwd" /etc/passwd
export HOME=$home

ssh-keygen -q -t ed25519 -N '' -f "$directory/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$home/.ssh/id_ed25519"
cp "$home/.ssh/id_ed25519.pub" "$home/.ssh/authorized_keys"
echo "localhost $(cut -d' ' -f1,2 "$directory/host_key.pub")" >"$home/.ssh/known_hosts"
# sshd insists on this directory, and not every machine that has one has sshd running.
mkdir -p /run/sshd
printf '%s\n' 'ListenAddress 127.0.0.1' "HostKey $directory/host_key" 'PermitRootLogin yes' 'StrictModes no' 'UsePAM no' \
    'MaxStartups 1000' "PidFile none" >"$directory/sshd_config"
"$(command -v sshd || echo /usr/sbin/sshd)" -D -f "$directory/sshd_config" >"$directory/sshd.log" 2>&1 &

export RSHD=no
rshd=$(command -v in.rshd || echo /usr/sbin/in.rshd)
if [ -x "$rshd" ] && command -v rsh >/dev/null; then
    RSHD=yes
    echo 'localhost root' >"$home/.rhosts"
    chmod 600 "$home/.rhosts"
    # What inetd does, for one service.
    python3 -c '
import socket, subprocess, sys
server = socket.create_server(("127.0.0.1", 514), backlog=128)
running = []
while True:
    connection, _ = server.accept()
    running = [process for process in running if process.poll() is None]
    running.append(subprocess.Popen([sys.argv[1]], stdin=connection, stdout=connection, stderr=connection))
    connection.close()' "$rshd" &
fi
for _ in $(seq 100); do
    ssh -o BatchMode=yes localhost true 2>/dev/null && break
    sleep 0.05
done
status=0
"$@" || status=$?
exit $status
