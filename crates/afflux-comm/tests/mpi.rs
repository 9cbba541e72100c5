//! MPI ranks: runs `src/bin/afflux-comm-conformance.rs` under the `mpirun` that fits the build.
//!
//! Skips with a message, and passes, where no fitting `mpirun` is found. Every launch has a time limit.

#![cfg(feature = "mpi")]

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use afflux_comm::launch::{Build, Family};

/// Far above what a busy machine needs, so that only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(240);

fn family() -> Family {
    match Build::this() {
        Build::Mpi { family, .. } => family,
        Build::WithoutMpi => unreachable!("this test is built with MPI"),
    }
}

/// The launcher of an MPI family, with the arguments that more ranks than cores need.
fn launcher(family: Family) -> Option<Command> {
    let (names, sign): (&[&str], &str) = match family {
        // Its own name for itself depends on the name it is called by; the address for bug reports does not.
        Family::OpenMpi => (&["mpirun.openmpi", "mpirun"], "open-mpi.org"),
        Family::Mpich => (&["mpirun.mpich", "mpiexec.hydra", "mpirun"], "HYDRA"),
        Family::Other => return None,
    };
    let name = names.iter().find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(sign))
    })?;
    let mut command = Command::new(name);
    if family == Family::OpenMpi {
        command.args(["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    Some(command)
}

/// Runs the program on `ranks` ranks; panics when it takes longer than [`LIMIT`].
fn run(mut launcher: Command, ranks: usize, arguments: &[&str]) -> Output {
    launcher.args(["-n", &ranks.to_string()]).arg(env!("CARGO_BIN_EXE_afflux-comm-conformance")).args(arguments);
    let mut child = launcher.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mpirun starts");
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let read = |pipe: &mut dyn Read| {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).map(|_| bytes).unwrap_or_default()
    };
    let out = std::thread::spawn(move || read(&mut stdout));
    let err = std::thread::spawn(move || read(&mut stderr));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("mpirun can be awaited") {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill().expect("mpirun can be killed");
            panic!("{ranks} ranks {arguments:?} hang");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Output { status, stdout: out.join().expect("reads"), stderr: err.join().expect("reads") }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn conformance_on_1_2_3_4_7_ranks() {
    for ranks in [1, 2, 3, 4, 7] {
        let Some(launcher) = launcher(family()) else {
            eprintln!("skipped: no mpirun fits {:?}", Build::this());
            return;
        };
        conforms(launcher, ranks);
    }
}

#[test]
fn failures_and_disagreements_end_no_wait_for_ever() {
    for ranks in [1, 2, 3, 4, 7] {
        let Some(launcher) = launcher(family()) else { return };
        conforms_in(launcher, ranks, &["failures"]);
    }
}

/// The same where ranks have no memory in common: they ask each other when they have waited for half a second.
#[test]
fn failures_and_disagreements_end_waits_across_nodes() {
    for ranks in [1, 2, 3] {
        let Some(launcher) = apart() else { return };
        conforms_in(launcher, ranks, &["failures"]);
    }
}

/// A launcher for ranks that behave as on several nodes, and warn after a second.
fn apart() -> Option<Command> {
    let mut launcher = launcher(family())?;
    launcher.env("AFFLUX_NODE_COLLECTIVES", "off").env("AFFLUX_STALL_WARNING_SECONDS", "1");
    Some(launcher)
}

#[test]
fn who_ends_while_others_wait_is_named() {
    for leaving in ["0", "1"] {
        for launcher in [launcher(family()), apart()] {
            let Some(launcher) = launcher else { return };
            let output = run(launcher, 3, &["leave", leaving]);
            let named = text(&output).matches(&format!("rank {leaving} left the communicator")).count();
            assert!(output.status.success() && named >= 2, "rank {leaving} leaves: {}", text(&output));
        }
    }
}

#[test]
fn a_warning_names_the_rank_that_is_late() {
    for late in ["0", "2"] {
        let near = launcher(family()).map(|mut launcher| {
            launcher.env("AFFLUX_STALL_WARNING_SECONDS", "1");
            launcher
        });
        for launcher in [near, apart()] {
            let Some(launcher) = launcher else { return };
            let output = run(launcher, 3, &["late", late]);
            assert!(output.status.success(), "{}", text(&output));
            let warnings = text(&output).matches(&format!("for rank {late}\n")).count();
            assert!(warnings >= 2, "a barrier and an exchange wait for rank {late}: {}", text(&output));
        }
    }
}

/// As on several nodes: all collectives through MPI.
#[test]
fn conformance_without_the_memory_of_the_node() {
    for ranks in [2, 3, 4, 7] {
        let Some(mut launcher) = launcher(family()) else { return };
        launcher.env("AFFLUX_NODE_COLLECTIVES", "off");
        conforms(launcher, ranks);
    }
}

fn conforms(launcher: Command, ranks: usize) {
    conforms_in(launcher, ranks, &[]);
}

fn conforms_in(launcher: Command, ranks: usize, arguments: &[&str]) {
    let output = run(launcher, ranks, arguments);
    assert!(output.status.success(), "{ranks} ranks: {}", text(&output));
    assert!(text(&output).contains(&format!("conformance ok on {ranks} ranks")), "{}", text(&output));
}

#[test]
fn a_host_program_keeps_its_mpi() {
    for ranks in [1, 3] {
        let Some(launcher) = launcher(family()) else { return };
        let output = run(launcher, ranks, &["host"]);
        assert!(output.status.success() && text(&output).contains("host ok"), "{}", text(&output));
    }
}

#[test]
fn a_panic_or_death_of_one_rank_ends_the_others() {
    for end in ["panic", "die"] {
        let Some(launcher) = launcher(family()) else { return };
        let output = run(launcher, 3, &[end, "1"]);
        assert!(!output.status.success(), "{end}: {}", text(&output));
        assert!(!text(&output).contains("conformance ok"), "{end}: {}", text(&output));
    }
}

#[test]
fn a_kill_of_one_rank_ends_the_others_in_whatever_call_they_are() {
    for call in ["barrier", "exchange", "send", "reduction"] {
        for launcher in [launcher(family()), apart()] {
            let Some(launcher) = launcher else { return };
            let output = run(launcher, 4, &["kill", "2", call]);
            assert!(!output.status.success(), "{call}: {}", text(&output));
            assert!(!text(&output).contains("goes on after"), "{call}: {}", text(&output));
        }
    }
}

#[test]
fn the_launcher_of_the_other_mpi_is_refused() {
    let other = match family() {
        Family::OpenMpi => Family::Mpich,
        _ => Family::OpenMpi,
    };
    let Some(launcher) = launcher(other) else {
        eprintln!("skipped: no mpirun of {other:?}");
        return;
    };
    let output = run(launcher, 3, &[]);
    assert!(!output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("would believe to be alone"), "{}", text(&output));
    assert!(!text(&output).contains("conformance ok"), "{}", text(&output));
}
