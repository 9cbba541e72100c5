# shellcheck shell=bash
# What `./dev test` and `./dev lint` run, step by step.
#
# Sourced by ./dev after steps.sh and setup.sh. Conventions that the crates follow:
#   - a test too long for every run is `#[ignore = "long: ..."]` and runs with --full;
#   - a program for several MPI ranks is an example (or a test without a harness) with required-features = ["mpi"].

rank_counts=(1 2 3 4 7)

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

# Programs for several MPI ranks: the examples and tests whose manifest says required-features = ["mpi"], as lines
# "package kind name".
mpi_programs() {
    awk '
        function emit() { if (kind != "" && name != "" && needs_mpi) print package, kind, name }
        FNR == 1 || /^\[/ { emit(); kind = ""; name = ""; needs_mpi = 0; section = $0 }
        /^\[\[(example|test)\]\]/ { kind = $0; gsub(/[][]/, "", kind) }
        /^name *=/ { split($0, parts, "\""); if (section == "[package]") package = parts[2]; else name = parts[2] }
        /^required-features *=.*"mpi"/ { needs_mpi = 1 }
        END { emit() }' crates/*/Cargo.toml apps/*/Cargo.toml
}

# mpi_executable PACKAGE KIND NAME: builds the program and prints its path.
mpi_executable() {
    timeout 1800 cargo test --locked --quiet -p "$1" --features mpi "--$2" "$3" --no-run --message-format=json \
        2>>"$log_directory/mpi-build.log" </dev/null |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}

# mpi_steps_of openmpi|mpich COMPILER: every such program on every rank count, built for that MPI.
mpi_steps_of() {
    local mpi=$1 launcher package kind name executable ranks
    launcher=$(mpi_launcher "$mpi")
    while read -r package kind name; do
        executable=$(MPICC=$2 CARGO_TARGET_DIR=$(mpi_target_directory "$mpi") mpi_executable "$package" "$kind" "$name") || true
        if [ -z "$executable" ]; then
            step "$mpi: build of $package $name" 10 bash -c 'tail -n 40 "$1"; false' _ "$log_directory/mpi-build.log"
            continue
        fi
        for ranks in "${rank_counts[@]}"; do
            step "$mpi: $package $name on $ranks" 300 "$launcher" -n "$ranks" "$executable"
        done
    done < <(mpi_programs)
}

# The bindings are generated for one MPI, and cargo does not see MPICC change: the second MPI has a directory of its own.
mpi_target_directory() {
    if [ "$1" = mpich ] && [ -n "$openmpi_compiler" ]; then
        printf '%s/mpich' "$target_directory"
    else
        printf '%s' "$target_directory"
    fi
}

mpi_steps() {
    if [ ${#mpi_feature_args[@]} -eq 0 ]; then
        skip "ranks under MPI" "there is no MPI, or AFFLUX_MPI=off"
        return
    fi
    mkdir -p "$log_directory"
    if [ -n "$openmpi_compiler" ]; then mpi_steps_of openmpi "$openmpi_compiler"; else skip "Open MPI" "not installed"; fi
    if [ -n "$mpich_compiler" ]; then mpi_steps_of mpich "$mpich_compiler"; else skip "MPICH" "not installed"; fi
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

compat_steps() {
    if ! [ -f tests/compat/requirements.txt ]; then
        skip "h5py, xarray, ncdump" "tests/compat is not there"
    elif ! setup_python; then
        step "python environment" 10 false
    else
        step "h5py, xarray, ncdump" 1200 .venv/bin/python -m pytest -q -p no:cacheprovider tests/compat
    fi
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
