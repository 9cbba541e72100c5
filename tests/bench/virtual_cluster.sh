#!/usr/bin/env bash
# Runs a command in front of a cluster of small virtual nodes, and leaves the machine as it was.
#
#   virtual_cluster.sh NODES RATE DIRECTORY COMMAND [ARGUMENT...]      e.g. virtual_cluster.sh 2 1gbit "$(mktemp -d)" ssh n1 uname -n
#
# As root. Each node n1, n2 ... is a network and a host name of its own; a bridge joins them with this machine, and every link is shaped to
# RATE (tc's words) in each direction. A private sshd waits on every node and on localhost, and so does an rshd where Debian's rsh-redone-server (or
# another in.rshd) and rsh are: RSHD says so (yes, no). MPI reaches the nodes by ssh. One more host is dead: what is sent to 192.0.2.2 vanishes
# without a word. All of it lies in namespaces that end with the command. Root's home is DIRECTORY/home there; DIRECTORY is
# an empty one of the caller's for that, keys and logs.
set -euo pipefail

if [ "${1:-}" != --inside ]; then
    [ $# -ge 4 ] || { sed -n 2,11p "$0" >&2; exit 2; }
    [ "$(id -u)" -eq 0 ] || { echo "virtual_cluster: needs root: it makes namespaces" >&2; exit 1; }
    # With a space of process numbers as well, so that nobody stays behind.
    exec unshare --net --mount --pid --fork --mount-proc --kill-child "$0" --inside "$@"
fi
nodes=$2 rate=$3
directory=$(cd "$4" && pwd -P)
shift 4
network=10.78.0 bridge=afflux0
home=$directory/home
mkdir -p "$home/.ssh" /run/netns /run/sshd
chmod 700 "$home" "$home/.ssh"
# Names of networks that only we see.
mount -t tmpfs tmpfs /run/netns

ip link set lo up
ip link add $bridge type bridge
ip addr add $network.254/24 dev $bridge
ip link set $bridge up
names=localhost
printf '127.0.0.1 localhost\n%s.254 %s\n' $network "$(uname -n)" >"$directory/hosts"
# A cable whose other end takes everything and answers nothing.
ip link add silent type veth peer name dark
ip addr add 192.0.2.1/24 dev silent
ip link set silent up
ip link set dark up
ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev silent

for node in $(seq "$nodes"); do
    ip netns add "n$node"
    ip link add "link$node" type veth peer name eth0 netns "n$node"
    ip link set "link$node" master $bridge up
    ip -n "n$node" addr add "$network.$node/24" dev eth0
    ip -n "n$node" link set eth0 up
    ip -n "n$node" link set lo up
    tc -n "n$node" qdisc add dev eth0 root tbf rate "$rate" burst 128kb latency 100ms
    tc qdisc add dev "link$node" root tbf rate "$rate" burst 128kb latency 100ms
    echo "$network.$node n$node" >>"$directory/hosts"
    names=$names,n$node
done
sed "s#^root:\(.*\):[^:]*:\([^:]*\)\$#root:\1:$home:\2#" /etc/passwd >"$directory/passwd"
mount --bind "$directory/passwd" /etc/passwd
mount --bind "$directory/hosts" /etc/hosts
export HOME=$home

ssh-keygen -q -t ed25519 -N '' -f "$directory/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$home/.ssh/id_ed25519"
cp "$home/.ssh/id_ed25519.pub" "$home/.ssh/authorized_keys"
# Known by name and by address: nobody is asked.
printf '%s,%s.*,127.0.0.1 %s\n' "$names" $network "$(cut -d' ' -f1,2 "$directory/host_key.pub")" >"$home/.ssh/known_hosts"
printf '%s\n' "HostKey $directory/host_key" 'PermitRootLogin yes' 'StrictModes no' 'UsePAM no' 'MaxStartups 1000' 'PidFile none' \
    >"$directory/sshd_config"

export RSHD=no
rshd=$(command -v in.rshd || echo /usr/sbin/in.rshd)
if [ -x "$rshd" ] && command -v rsh >/dev/null; then
    RSHD=yes
    printf '%s root\n' localhost "$(uname -n)" >"$home/.rhosts"
    chmod 600 "$home/.rhosts"
fi
# What inetd does, for one service.
cat >"$directory/inetd.py" <<'PYTHON'
import socket, subprocess, sys
server = socket.create_server(("0.0.0.0", 514), backlog=128)
running = []
while True:
    connection, _ = server.accept()
    running = [process for process in running if process.poll() is None]
    running.append(subprocess.Popen([sys.argv[1]], stdin=connection, stdout=connection, stderr=connection))
    connection.close()
PYTHON
# servers COMMAND...: the servers of a node, started by a command that puts them there.
servers() {
    "$@" "$(command -v sshd || echo /usr/sbin/sshd)" -D -f "$directory/sshd_config" >>"$directory/sshd.log" 2>&1 </dev/null &
    [ $RSHD = no ] || "$@" python3 "$directory/inetd.py" "$rshd" >>"$directory/rshd.log" 2>&1 </dev/null &
}
servers env
for node in $(seq "$nodes"); do
    # shellcheck disable=SC2016  # expanded by the inner shell
    servers ip netns exec "n$node" unshare --uts sh -c 'hostname "$0" && exec "$@"' "n$node"
done
for name in ${names//,/ }; do
    for _ in $(seq 100); do
        ssh -o BatchMode=yes "$name" true 2>/dev/null </dev/null && break
        sleep 0.05
    done
done

# MPI starts its daemons by ssh, and speaks over the bridge.
export OMPI_MCA_oob_tcp_if_include=$network.0/24 OMPI_MCA_btl_tcp_if_include=$network.0/24 OMPI_MCA_plm_rsh_agent=ssh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
status=0
"$@" || status=$?
exit $status
