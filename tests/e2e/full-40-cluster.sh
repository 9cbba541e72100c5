#!/usr/bin/env bash
# Ranks on several nodes: one network namespace and host name a node, joined by a bridge, each link shaped. MPI sees separate
# hosts; the memory of a node is used within it and nowhere else. Needs root, iproute2 and util-linux.
. "$(dirname "$0")/lib.sh"

nodes=3 bridge=afxbr network=10.78.0 rate=400mbit

tear_down() {
    local node
    for node in $(seq "$nodes"); do ip netns del "afx$node" 2>/dev/null; done
    ip link del "$bridge" 2>/dev/null
}

set_up() {
    local node
    ip link add "$bridge" type bridge && ip link set "$bridge" up && ip addr add "$network.254/24" dev "$bridge" || return 1
    for node in $(seq "$nodes"); do
        ip netns add "afx$node" &&
            ip link add "afxv$node" type veth peer name eth0 netns "afx$node" &&
            ip link set "afxv$node" master "$bridge" up &&
            ip netns exec "afx$node" ip addr add "$network.$node/24" dev eth0 &&
            ip netns exec "afx$node" ip link set eth0 up &&
            ip netns exec "afx$node" ip link set lo up &&
            ip netns exec "afx$node" tc qdisc add dev eth0 root tbf rate "$rate" burst 128kb latency 100ms &&
            tc qdisc add dev "afxv$node" root tbf rate "$rate" burst 128kb latency 100ms || return 1
    done
}

# The launchers call: agent [OPTIONS] HOST COMMAND...
write_agent() {
    cat >"$directory/agent" <<'TEXT'
#!/usr/bin/env bash
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare -u bash -c "hostname $host; $*"
TEXT
    chmod +x "$directory/agent"
}

# on_nodes openmpi|mpich RANKS_A_NODE [ARGUMENTS...]: sets the array `command`, the conformance program on all nodes.
on_nodes() {
    local mpi=$1 per_node=$2 hosts
    shift 2
    hosts=$(for node in $(seq "$nodes"); do printf 'afx%s:%s,' "$node" "$per_node"; done)
    case $mpi in
        openmpi)
            command=("$MPIRUN_OPENMPI" --mca plm_rsh_agent "$directory/agent" --mca oob_tcp_if_include "$network.0/24"
                --mca btl_tcp_if_include "$network.0/24" --mca btl tcp,vader,self
                --map-by "ppr:$per_node:node" -H "${hosts%,}" -n $((nodes * per_node)) "$CONFORMANCE_OPENMPI" "$@") ;;
        mpich)
            command=("$MPIRUN_MPICH" -launcher rsh -launcher-exec "$directory/agent" -iface "$bridge"
                -hosts "${hosts%,}" -n $((nodes * per_node)) "$CONFORMANCE_MPICH" "$@") ;;
    esac
}

# checks NAME openmpi|mpich PROGRAM
checks() {
    local name=$1 mpi=$2 command
    if [ -z "$3" ]; then
        skip "several nodes under $name" "not installed"
        return
    fi
    export AFFLUX_STALL_WARNING_SECONDS=1
    for per_node in 1 2 3; do
        on_nodes "$mpi" "$per_node"
        works "$name: $per_node ranks a node conform" "${command[@]}"
        says "$name: MPI tells the nodes apart" "^conformance ok on $((nodes * per_node)) ranks of $nodes nodes"
    done
    on_nodes "$mpi" 1 failures
    works "$name: failures and disagreements end every wait" "${command[@]}"
    on_nodes "$mpi" 2 leave 3
    works "$name: a rank ends while others wait" "${command[@]}"
    says "$name: it is named" 'rank 3 left the communicator'
    on_nodes "$mpi" 2 late 3
    works "$name: a rank comes late" "${command[@]}"
    says "$name: it is named too" 'has waited 1 s .* for rank 3$'
    on_nodes "$mpi" 2 kill 3 barrier
    exits "137 9 255" "$name: a killed rank ends the job" "${command[@]}"
    never_says "$name: nobody goes on after it" 'goes on after'
    unset AFFLUX_STALL_WARNING_SECONDS
}

if [ "$(id -u)" -ne 0 ] || ! command -v ip tc unshare >/dev/null; then
    skip "several nodes" "needs root, iproute2 and util-linux"
elif tear_down; ! set_up; then
    tear_down
    skip "several nodes" "this system gives no network namespaces"
else
    trap 'tear_down; rm -rf "$directory"' EXIT
    write_agent
    checks "Open MPI" openmpi "${CONFORMANCE_OPENMPI:-}"
    checks MPICH mpich "${CONFORMANCE_MPICH:-}"
fi
finish
