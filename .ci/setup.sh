# shellcheck shell=bash
# What a machine must have: packages, a Rust toolchain, MPI where wanted, a Python environment for the readers we test with.
#
# Sourced by ./dev. Installs only what is missing, and only as root (or by `sudo -n`); else it names the command to type.
# MPI is a choice: AFFLUX_MPI=off builds without it, AFFLUX_MPI=on insists, unset takes it where it is or can be installed.

packages_build=(build-essential pkg-config libhdf5-dev ca-certificates)
packages_mpi=(libclang-dev openmpi-bin libopenmpi-dev mpich libmpich-dev)
packages_lab=(e2fsprogs xfsprogs btrfs-progs mount)
packages_test=(hdf5-tools netcdf-bin procps python3 python3-venv shellcheck strace time openssh-client iproute2)
# Servers, which nobody wants on a machine of their own: the end-to-end tests of remote shells use them where they are.
[ -z "${CI:-}" ] || packages_test+=(openssh-server rsh-redone-client rsh-redone-server)

have() { command -v "$1" >/dev/null 2>&1; }

# The packages among the arguments that dpkg does not have installed.
missing_packages() {
    local package state
    for package in "$@"; do
        state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) || state=absent
        [ "$state" = installed ] || printf '%s\n' "$package"
    done
}

# Sets as_root, what a command that needs root begins with: nothing as root, `sudo -n` where that works; else fails.
find_root() {
    as_root=()
    [ "$(id -u)" -ne 0 ] || return 0
    as_root=(sudo -n)
    have sudo && sudo -n true 2>/dev/null
}

package_lists_updated=no
update_package_lists() {
    [ "$package_lists_updated" = no ] || return 0
    timeout 600 "${as_root[@]}" apt-get update && package_lists_updated=yes
}

# install_packages PACKAGE...: returns 1 where it could not, having said what to type.
install_packages() {
    if ! have dpkg-query || ! have apt-get; then
        check_tools_without_apt "$@"
        return
    fi
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! find_root; then
        say "dev: these packages are missing; as root:  apt-get install ${missing[*]}" >&2
        return 1
    fi
    say "installing ${missing[*]}"
    mkdir -p "$log_directory"
    local log=$log_directory/apt.log
    if ! { update_package_lists &&
        timeout 1500 "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2
        say "dev: apt-get could not install ${missing[*]}" >&2
        return 1
    fi
}

# On a system without apt we install nothing: name what the compiler or the linker would otherwise stumble over.
check_tools_without_apt() {
    local package missing=()
    for package in "$@"; do
        case $package in
            build-essential) have cc || missing+=("a C compiler") ;;
            pkg-config) have pkg-config || missing+=(pkg-config) ;;
            libhdf5-dev) [ -n "${HDF5_DIR:-}" ] || have h5cc || pkg-config --exists hdf5 || missing+=("HDF5 with its headers (or HDF5_DIR)") ;;
            hdf5-tools) have h5diff || missing+=(h5diff) ;;
            netcdf-bin) have ncdump || missing+=(ncdump) ;;
            openmpi-bin | mpich) have mpicc || missing+=("an MPI with mpicc") ;;
            python3) have python3 || missing+=(python3) ;;
            strace) have strace || missing+=(strace) ;;
        esac
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    printf 'dev: missing: %s\n' "${missing[@]}" >&2
    return 1
}

# A Rust toolchain on PATH; which version, rust-toolchain.toml says and rustup obeys.
require_rust() {
    have cargo || PATH=$HOME/.cargo/bin:$PATH
    if ! have cargo; then
        die "no Rust toolchain: install rustup from https://rustup.rs (on Debian 13: apt-get install rustup), then run this again"
    fi
    cargo --version >/dev/null || die "cargo does not run; rust-toolchain.toml names the toolchain it must have (rustup toolchain install)"
}

# What building needs. Sets the cargo arguments that switch MPI on, or none: mpi_feature_args for the command, and
# mpi_workspace_args for the whole workspace.
# setup_build [found-mpi]: with the word, MPI is used where it is but not installed.
setup_build() {
    install_packages "${packages_build[@]}" || exit 1
    require_rust
    setup_mpi "${1:-}"
    limit_jobs
}

# Finds MPI, or installs it where that is allowed. Sets openmpi_compiler, mpich_compiler (empty where absent), MPICC.
setup_mpi() {
    local wish=${AFFLUX_MPI:-auto}
    mpi_feature_args=() mpi_workspace_args=() openmpi_compiler='' mpich_compiler=''
    case $wish in
        off) return ;;
        on | auto) ;;
        *) die "AFFLUX_MPI is '$wish'; it may be on, off or unset" ;;
    esac
    # A site's own MPI (a module, say) is found by its mpicc; Debian's packages are for machines that have none.
    if [ "$1" = found-mpi ]; then
        # Bindings to MPI are made with libclang; without it an MPI that is there is of no use.
        have mpicc && [ -n "$(missing_packages libclang-dev)" ] && return
    elif ! have mpicc || have mpicc.openmpi || have mpicc.mpich; then
        install_packages "${packages_mpi[@]}" || say "dev: going on without the MPI packages that are missing"
    fi
    find_mpi_compilers
    if [ -z "$openmpi_compiler$mpich_compiler" ]; then
        [ "$wish" = auto ] || die "AFFLUX_MPI=on, but there is no mpicc"
        say "no mpicc: building without MPI (ranks are threads)"
        return
    fi
    export MPICC=${MPICC:-${openmpi_compiler:-$mpich_compiler}}
    mpi_feature_args=(--features afflux-cli/mpi)
    mpi_workspace_args=(--features afflux-cli/mpi,afflux-collective/mpi)
    # Containers and CI run as root on few cores: both are refused or slow by Open MPI's defaults.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
}

find_mpi_compilers() {
    if have mpicc.openmpi; then openmpi_compiler=mpicc.openmpi; fi
    if have mpicc.mpich; then mpich_compiler=mpicc.mpich; fi
    if [ -z "$openmpi_compiler$mpich_compiler" ] && have mpicc; then
        # Open MPI's wrapper answers --showme; whatever does not is taken for the MPICH family.
        if mpicc --showme:version >/dev/null 2>&1; then openmpi_compiler=mpicc; else mpich_compiler=mpicc; fi
    fi
}

# mpi_launcher openmpi|mpich: the launcher that belongs to that compiler.
mpi_launcher() {
    if have "mpirun.$1"; then printf 'mpirun.%s' "$1"; else printf 'mpirun'; fi
}

# A rustc or a linker takes up to about 1.5 GiB here: no more of them at once than the memory holds.
limit_jobs() {
    [ -z "${CARGO_BUILD_JOBS:-}" ] || return 0
    local cores available_kib jobs
    cores=$(nproc)
    available_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
    jobs=$((available_kib / (1536 * 1024)))
    [ "$jobs" -ge 1 ] || jobs=1
    export CARGO_BUILD_JOBS=$((jobs < cores ? jobs : cores))
}

# setup_python: .venv with the pinned packages of tests/compat/requirements.txt; made anew only when that file changes.
setup_python() {
    local requirements=tests/compat/requirements.txt stamp=.venv/afflux-requirements.txt python=python3
    [ -f "$requirements" ] || return 1
    cmp -s "$requirements" "$stamp" && return 0
    # The system's Python before one of a version manager: the pinned wheels are known to exist for it.
    [ -x /usr/bin/python3 ] && python=/usr/bin/python3
    say "making .venv"
    mkdir -p "$log_directory"
    if ! { timeout 120 "$python" -m venv --clear .venv &&
        timeout 1200 .venv/bin/pip install --disable-pip-version-check --only-binary :all: -r "$requirements"; } \
        >"$log_directory/venv.log" 2>&1 </dev/null; then
        tail -n 15 "$log_directory/venv.log" >&2
        return 1
    fi
    cp "$requirements" "$stamp"
}
