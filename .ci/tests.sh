# shellcheck shell=bash
# What `./dev test` and `./dev lint` run, step by step.
#
# Sourced by ./dev after steps.sh and setup.sh. Conventions that the crates follow:
#   - a test that is too slow without optimisation is `#[ignore = "..."]`: it runs in the step "slow tests", optimised;
#   - a test that needs several MPI ranks starts mpirun itself (crates/afflux-comm/tests/mpi.rs), built with the feature mpi.
#
# Each crate is compiled as seldom as may be: tests once, with MPI where there is one; the optimised command once for each MPI.
# Without MPI everything is linted, and with --full tested.

lint_steps() {
    step "fmt" 120 cargo fmt --all --check
    step "clippy" 1800 cargo clippy --locked --workspace --all-targets -- -D warnings
    if [ ${#mpi_feature_args[@]} -gt 0 ]; then
        step "clippy with MPI" 1800 cargo clippy --locked --workspace --all-targets "${mpi_workspace_args[@]}" -- -D warnings
    fi
    step "tidy" 600 cargo run --locked --quiet -p xtask -- tidy
    step "doc" 1800 env RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps "${mpi_workspace_args[@]}"
    if have shellcheck; then
        # Not told: names that another of the sourced files sets or reads, and commas in arguments.
        step "shellcheck" 120 shellcheck --severity=warning --exclude=SC2034,SC2154,SC2054 dev .ci/run .ci/*.sh tests/e2e/*.sh tests/bench/*.sh
    else
        skip "shellcheck" "not installed"
    fi
}

# tests_of NAME SECONDS CARGO_ARGUMENTS...: by nextest where it is installed (it times and isolates each test), else cargo test.
# The step fails where no test has run.
tests_of() {
    local name=$1 seconds=$2
    shift 2
    if have cargo-nextest; then
        counted_step "$name" "$seconds" cargo nextest run --locked --no-fail-fast "$@"
    else
        counted_step "$name" "$seconds" cargo test --locked --no-fail-fast "$@"
    fi
}

# The targets that both runners take; documentation tests are a step of their own.
test_targets=(--lib --bins --tests --examples)

cargo_test_steps() {
    tests_of "tests" 2400 --workspace "${test_targets[@]}" "${mpi_workspace_args[@]}"
    counted_step "doc tests" 1200 cargo test --locked --no-fail-fast --workspace --doc "${mpi_workspace_args[@]}"
}

# The tests marked as too slow without optimisation: on the release build, which the end-to-end tests need anyway.
slow_test_steps() {
    local only=(-- --ignored)
    have cargo-nextest && only=(--run-ignored only)
    tests_of "slow tests: physics" 1800 --release --workspace --test 'physics*' "${mpi_workspace_args[@]}" "${only[@]}"
}

# The bindings are generated for one MPI, and cargo does not see MPICC change: the second MPI has a directory of its own.
mpi_target_directory() {
    if [ "$1" = mpich ] && [ -n "$openmpi_compiler" ]; then
        printf '%s/mpich' "$target_directory"
    else
        printf '%s' "$target_directory"
    fi
}

# launcher_step NAME LAUNCHER SIGN: tests that start mpirun pass without one, so that there is one is a check of its own.
launcher_step() {
    # shellcheck disable=SC2016  # expanded by the inner shell
    step "$1: its launcher" 30 bash -c '"$1" --version | grep -q "$2"' _ "$2" "$3"
}

# `cargo test` of afflux-comm starts its conformance program under the mpirun that fits the build, on 1, 2, 3, 4 and 7 ranks. The
# first MPI has had its turn in the whole workspace's tests; here is the second one's. For both, the programs are left for
# the end-to-end scripts, which read CORPUS_* (the collective engine's corpus) and CONFORMANCE_*.
mpi_steps() {
    local directory packages=(-p afflux-comm -p afflux-collective -p afflux-cli)
    local features=(--features afflux-comm/mpi,afflux-collective/mpi,afflux-cli/mpi)
    export CORPUS_OPENMPI='' CORPUS_MPICH='' CONFORMANCE_OPENMPI='' CONFORMANCE_MPICH=''
    export AFFLUX_MPICH='' MPIRUN_OPENMPI='' MPIRUN_MPICH=''
    if [ -n "$openmpi_compiler" ]; then
        MPIRUN_OPENMPI=$(mpi_launcher openmpi)
        launcher_step "Open MPI" "$MPIRUN_OPENMPI" open-mpi.org
        step "programs for Open MPI" 1200 cargo build --locked --workspace --bins --examples "${mpi_workspace_args[@]}"
        CORPUS_OPENMPI=$target_directory/debug/examples/oracle_mpi
        CONFORMANCE_OPENMPI=$target_directory/debug/afflux-comm-conformance
    else
        skip "ranks under Open MPI" "not installed, or AFFLUX_MPI=off"
    fi
    if [ -n "$mpich_compiler" ]; then
        directory=$(mpi_target_directory mpich)
        export CARGO_TARGET_DIR=$directory
        MPIRUN_MPICH=$(mpi_launcher mpich)
        launcher_step "MPICH" "$MPIRUN_MPICH" HYDRA
        MPICC=$mpich_compiler tests_of "tests with MPICH" 2400 "${packages[@]}" "${features[@]}" "${test_targets[@]}"
        MPICC=$mpich_compiler step "programs for MPICH" 1200 cargo build --locked "${packages[@]}" "${features[@]}" --bins --examples
        CORPUS_MPICH=$directory/debug/examples/oracle_mpi
        CONFORMANCE_MPICH=$directory/debug/afflux-comm-conformance
        AFFLUX_MPICH=$directory/debug/afflux
        export CARGO_TARGET_DIR=$target_directory
    else
        skip "ranks under MPICH" "not installed, or AFFLUX_MPI=off"
    fi
}

# The end-to-end scripts read AFFLUX (the optimised command), AFFLUX_OPENMPI (the same) and AFFLUX_MPICH (not optimised, from
# mpi_steps: that its files have the same bytes says the more), empty where that MPI is absent.
end_to_end_steps() {
    local script
    export AFFLUX=$target_directory/release/afflux AFFLUX_OPENMPI=''
    step "release build" 3000 cargo build --release --locked -p afflux-cli "${mpi_feature_args[@]}"
    if [ -n "$openmpi_compiler" ]; then
        AFFLUX_OPENMPI=$AFFLUX
    elif [ -n "$mpich_compiler" ]; then
        AFFLUX_MPICH=$AFFLUX
    fi
    for script in tests/e2e/[0-9]*.sh; do
        counted_step "e2e $(basename "$script" .sh)" 900 bash "$script"
    done
}

# build_commands: the optimised command and, where there is a second MPI, the unoptimised one for it, for people who run the
# harness by hand. Sets what end_to_end_steps and mpi_steps set.
build_commands() {
    export AFFLUX_OPENMPI='' AFFLUX_MPICH='' MPIRUN_OPENMPI='' MPIRUN_MPICH=''
    build_release
    export AFFLUX=$afflux
    if [ -n "$openmpi_compiler" ]; then
        AFFLUX_OPENMPI=$AFFLUX MPIRUN_OPENMPI=$(mpi_launcher openmpi)
    fi
    if [ -n "$mpich_compiler" ]; then
        MPIRUN_MPICH=$(mpi_launcher mpich)
        if [ -n "$openmpi_compiler" ]; then
            AFFLUX_MPICH=$(mpi_target_directory mpich)/debug/afflux
            CARGO_TARGET_DIR=$(mpi_target_directory mpich) MPICC=$mpich_compiler timeout 3000 cargo build --locked -p afflux-comm \
                -p afflux-collective -p afflux-cli --features afflux-comm/mpi,afflux-collective/mpi,afflux-cli/mpi --bins
        else
            AFFLUX_MPICH=$AFFLUX
        fi
    fi
}

# kill_steps TRIALS: runs killed at random moments and resumed; see tests/kill.
kill_steps() {
    if [ ! -x .venv/bin/python ]; then
        step "kill trials: no Python environment" 10 false
        return
    fi
    step "kill harness" 1200 cargo build --locked --workspace --bins "${mpi_workspace_args[@]}"
    AFFLUX_PYTHON=$PWD/.venv/bin/python counted_step "kill trials" $((120 + 6 * $1)) "$target_directory/debug/afflux-kill" trials "$1" --jobs 2
}

# The command built with the order of a seal broken: the harness must find it out. A directory of its own, so that no other step gets that command.
canary_kill_steps() {
    local directory=$target_directory/canary
    step "canary: the command with a broken seal order" 3000 env CARGO_TARGET_DIR="$directory" cargo build --locked -p afflux-cli \
        -p afflux-container --features afflux-container/canary-broken-seal-order --bin afflux
    step "canary: kill harness" 1200 cargo build --locked -p afflux-kill
    AFFLUX=$directory/debug/afflux AFFLUX_PYTHON=$PWD/.venv/bin/python counted_step "canary: kill trials find it" 600 \
        "$target_directory/debug/afflux-kill" trials 40 --seed 3 --jobs 2 --threads-only --canary
}

# Files of the command in h5py, netCDF4, both engines of xarray, ncdump, h5dump and the CF checker.
compat_steps() {
    if ! setup_python; then
        step "python environment" 10 tail -n 20 "$log_directory/venv.log"
        step "other readers" 10 false
        return
    fi
    local directory=$target_directory/compat file
    rm -rf "$directory"
    mkdir -p "$directory"
    step "files to read: demo" 300 "$AFFLUX" demo "$directory/demo"
    step "files to read: one row" 60 "$AFFLUX" synth --points 3 --steps 1 --variables 1 --out "$directory/one-row.nc"
    step "files to read: f32" 60 "$AFFLUX" synth --points 37 --steps 173 --variables 3 --type f32 --ranks 3 --window 20 \
        --out "$directory/f32.nc"
    step "files to read: i32" 60 "$AFFLUX" synth --points 5 --steps 40 --variables 2 --type i32 --ranks 2 --out "$directory/i32.nc"
    step "files to read: three sets" 60 "$AFFLUX" synth --points 25 --steps 90 --variables 2 --sets 3 --cadence 4 --ranks 2 \
        --out "$directory/three-sets.nc"
    for file in "$directory/demo/run.nc" "$directory"/*.nc; do
        counted_step "other readers: $(basename "$file" .nc)" 600 .venv/bin/python tests/compat/check_file.py "$file"
    done
}

full_steps() {
    local script all=(-- --include-ignored)
    have cargo-nextest && all=(--run-ignored all)
    tests_of "tests, optimised" 3600 --release --workspace "${test_targets[@]}" "${mpi_workspace_args[@]}" "${all[@]}"
    optimised_conformance_steps
    step "canary: a broken order within a seal is noticed" 1200 cargo test --locked -p afflux-container \
        --features canary-broken-seal-order --test writer canary
    canary_kill_steps
    kill_steps 1000
    for script in tests/e2e/full-*.sh; do
        counted_step "e2e $(basename "$script" .sh)" 3600 bash "$script"
    done
    without_mpi_steps
    static_hdf5_steps
}

# Gigabytes are made and compared byte by byte: not for an unoptimised program.
optimised_conformance_steps() {
    local directory
    if [ -n "$CONFORMANCE_OPENMPI" ]; then
        step "conformance for Open MPI, optimised" 1200 cargo build --release --locked --workspace --bins "${mpi_workspace_args[@]}"
        CONFORMANCE_OPENMPI=$target_directory/release/afflux-comm-conformance
    fi
    if [ -n "$CONFORMANCE_MPICH" ]; then
        directory=$(mpi_target_directory mpich)
        step "conformance for MPICH, optimised" 1200 env MPICC="$mpich_compiler" CARGO_TARGET_DIR="$directory" \
            cargo build --release --locked -p afflux-comm --features mpi --bins
        CONFORMANCE_MPICH=$directory/release/afflux-comm-conformance
    fi
}

# The other build that the manifests allow: everything tested where ranks are threads only, and the command runs.
without_mpi_steps() {
    local directory=$target_directory/no-mpi
    export CARGO_TARGET_DIR=$directory
    tests_of "tests without MPI" 2400 --workspace "${test_targets[@]}"
    step "command without MPI" 1800 cargo build --locked -p afflux-cli
    export CARGO_TARGET_DIR=$target_directory
    links_without "command without MPI" libmpi "$directory/debug/afflux"
}

# HDF5 built from source by cargo wants a newer CMake than Debian 12's; PyPI has one.
static_hdf5_steps() {
    local environment=$target_directory/cmake-venv directory=$target_directory/static
    # shellcheck disable=SC2016  # expanded by the inner shell
    step "CMake from PyPI" 600 bash -c '[ -x "$1/bin/cmake" ] || { python3 -m venv "$1" && "$1/bin/pip" install cmake==3.31.6; }' _ "$environment"
    export CMAKE=$environment/bin/cmake CARGO_TARGET_DIR=$directory
    tests_of "container and series on static HDF5" 3600 -p afflux-container -p afflux-series --features afflux-container/static-hdf5 \
        "${test_targets[@]}"
    step "command on static HDF5" 3600 cargo build --locked -p afflux-cli --features static-hdf5
    export CARGO_TARGET_DIR=$target_directory
    links_without "command on static HDF5" libhdf5 "$directory/debug/afflux"
    AFFLUX=$directory/debug/afflux counted_step "e2e demo on static HDF5" 900 bash tests/e2e/10-demo.sh
}

# links_without NAME LIBRARY PROGRAM: the program starts, and the loader does not load that library for it.
links_without() {
    # shellcheck disable=SC2016  # expanded by the inner shell
    step "$1: no $2 in it" 60 bash -c '"$2" --version && linked=$(ldd "$2") && [ -n "$linked" ] && ! grep -i "$1" <<<"$linked"' _ "$2" "$3"
}
