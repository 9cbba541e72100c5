# shellcheck shell=bash
# What `./dev test` and `./dev lint` run, step by step.
#
# Sourced by ./dev after steps.sh and setup.sh. Conventions that the crates follow:
#   - a test too long for every run is `#[ignore = "long: ..."]` and runs with --full;
#   - a test that needs several MPI ranks starts mpirun itself (crates/afflux-comm/tests/mpi.rs), built with the feature mpi.

lint_steps() {
    step "fmt" 120 cargo fmt --all --check
    step "clippy" 1800 cargo clippy --locked --workspace --all-targets -- -D warnings
    if [ ${#mpi_feature_args[@]} -gt 0 ]; then
        step "clippy with MPI" 1800 cargo clippy --locked --workspace --all-targets "${mpi_feature_args[@]}" -- -D warnings
    fi
    step "tidy" 600 cargo run --locked --quiet -p xtask -- tidy
    step "doc" 1800 env RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps "${mpi_feature_args[@]}"
}

# tests_of NAME SECONDS CARGO_ARGUMENTS...: by nextest where it is installed (it times and isolates each test), else cargo test.
tests_of() {
    local name=$1 seconds=$2
    shift 2
    if have cargo-nextest; then
        step "$name" "$seconds" cargo nextest run --locked --no-fail-fast "$@"
    else
        step "$name" "$seconds" cargo test --locked --no-fail-fast --lib --bins --tests --examples "$@"
    fi
}

cargo_test_steps() {
    tests_of "tests" 2400 --workspace
    step "doc tests" 1200 cargo test --locked --no-fail-fast --workspace --doc
    if [ ${#mpi_feature_args[@]} -gt 0 ]; then
        tests_of "tests with MPI built in" 2400 --workspace "${mpi_feature_args[@]}"
    fi
}

# The bindings are generated for one MPI, and cargo does not see MPICC change: the second MPI has a directory of its own.
mpi_target_directory() {
    if [ "$1" = mpich ] && [ -n "$openmpi_compiler" ]; then
        printf '%s/mpich' "$target_directory"
    else
        printf '%s' "$target_directory"
    fi
}

# `cargo test` of afflux-comm starts its conformance program under the mpirun that fits the build, on 1, 2, 3, 4 and 7 ranks. The
# first MPI has had its turn in the whole workspace's tests; here is the second one's.
mpi_steps() {
    if [ ${#mpi_feature_args[@]} -eq 0 ]; then
        skip "ranks under MPI" "there is no MPI, or AFFLUX_MPI=off"
    elif [ -z "$openmpi_compiler" ]; then
        skip "Open MPI" "not installed"
    elif [ -z "$mpich_compiler" ]; then
        skip "MPICH" "not installed"
    else
        local first_directory=$target_directory
        export CARGO_TARGET_DIR
        CARGO_TARGET_DIR=$(mpi_target_directory mpich)
        MPICC=$mpich_compiler tests_of "ranks under MPICH" 2400 -p afflux-comm --features mpi
        CARGO_TARGET_DIR=$first_directory
    fi
}

# Builds the command for each MPI there is, and sets what tests/e2e and tests/compat read:
# AFFLUX (always), AFFLUX_OPENMPI and MPIRUN_OPENMPI, AFFLUX_MPICH and MPIRUN_MPICH (empty where absent).
build_for_end_to_end() {
    local directory
    export AFFLUX=$target_directory/release/afflux AFFLUX_OPENMPI='' AFFLUX_MPICH='' MPIRUN_OPENMPI='' MPIRUN_MPICH=''
    step "release build" 3000 cargo build --release --locked -p afflux-cli "${mpi_feature_args[@]}"
    if [ -n "$openmpi_compiler" ]; then
        AFFLUX_OPENMPI=$AFFLUX MPIRUN_OPENMPI=$(mpi_launcher openmpi)
    fi
    if [ -n "$mpich_compiler" ]; then
        directory=$(mpi_target_directory mpich)
        AFFLUX_MPICH=$directory/release/afflux MPIRUN_MPICH=$(mpi_launcher mpich)
        step "release build for MPICH" 3000 env MPICC="$mpich_compiler" CARGO_TARGET_DIR="$directory" \
            cargo build --release --locked -p afflux-cli "${mpi_feature_args[@]}"
    fi
}

end_to_end_steps() {
    local script
    build_for_end_to_end
    for script in tests/e2e/[0-9]*.sh; do
        [ -e "$script" ] || continue
        step "e2e $(basename "$script" .sh)" 900 bash "$script"
    done
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
    step "files to read: three sets" 60 "$AFFLUX" synth --points 25 --steps 90 --variables 2 --sets 3 --cadence 4 --ranks 2 \
        --out "$directory/three-sets.nc"
    for file in "$directory/demo/run.nc" "$directory"/*.nc; do
        step "other readers: $(basename "$file" .nc)" 600 .venv/bin/python tests/compat/check_file.py "$file"
    done
}

full_steps() {
    long_tests=(--run-ignored only)
    have cargo-nextest || long_tests=(-- --ignored)
    tests_of "long tests" 3600 --workspace --release "${mpi_feature_args[@]}" "${long_tests[@]}"
    local script
    for script in tests/e2e/full-*.sh; do
        [ -e "$script" ] || continue
        step "e2e $(basename "$script" .sh)" 3600 bash "$script"
    done
    static_hdf5_steps
    step "build without MPI" 1800 env -u MPICC CARGO_TARGET_DIR="$target_directory/no-mpi" cargo build --locked -p afflux-cli
    step "no MPI library in it" 60 bash -c '! ldd "$1" | grep -i libmpi' _ "$target_directory/no-mpi/debug/afflux"
}

# HDF5 built from source by cargo wants a newer CMake than Debian 12's; PyPI has one.
static_hdf5_steps() {
    local environment=$target_directory/cmake-venv
    step "CMake from PyPI" 600 bash -c '[ -x "$1/bin/cmake" ] || { python3 -m venv "$1" && "$1/bin/pip" install cmake==3.31.6; }' _ "$environment"
    export CMAKE=$environment/bin/cmake
    tests_of "container on static HDF5" 3600 -p afflux-container --features static-hdf5
    step "release build on static HDF5" 3600 env CARGO_TARGET_DIR="$target_directory/static" \
        cargo build --release --locked -p afflux-cli --features static-hdf5
    step "no HDF5 library in it" 60 bash -c '! ldd "$1" | grep -i libhdf5' _ "$target_directory/static/release/afflux"
}
