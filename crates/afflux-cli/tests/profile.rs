//! `afflux profile` from outside: whatever ends a job, its profile is there and says so; what it used is what other tools say.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn profiler(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afflux"));
    command.arg("profile").args(arguments).current_dir(directory).env("AFFLUX_IGNORE_LAUNCHER", "1");
    command
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    profiler(directory, arguments).output().expect("the command starts")
}

/// Runs `sh -c SCRIPT` under the profiler with further options; returns exit code and profile.
fn script(options: &[&str], script: &str) -> (Option<i32>, Value) {
    let here = tempfile::tempdir().unwrap();
    let arguments: Vec<&str> =
        ["-o", "p.json"].iter().chain(options).copied().chain(["--", "sh", "-c", script]).collect();
    let output = run(here.path(), &arguments);
    let code = output.status.code();
    (code, read(&here.path().join("p.json")))
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn number(profile: &Value, key: &str) -> f64 {
    profile[key].as_f64().unwrap_or_else(|| panic!("{key}: {profile}"))
}

/// Waits up to ten seconds for something to become true.
fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts the profiler on a job that says in `ready` that it runs, and waits for that.
fn start(directory: &Path, job: &str) -> Child {
    let arguments: Vec<&str> = vec!["-o", "p.json", "--", "sh", "-c", job];
    let child = profiler(directory, &arguments).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the job runs", || directory.join("ready").exists());
    child
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn the_agreed_keys_are_there_and_the_exit_code_is_the_jobs() {
    let (code, profile) = script(&[], "exit 7");
    assert_eq!(code, Some(7));
    for key in ["user_seconds", "system_seconds", "cpu_seconds", "elapsed_seconds", "idle_seconds", "peak_memory_bytes"]
    {
        assert!(number(&profile, key).is_finite(), "{key}");
    }
    let sum = number(&profile, "user_seconds") + number(&profile, "system_seconds") + number(&profile, "idle_seconds");
    assert!((sum - number(&profile, "elapsed_seconds")).abs() < 1e-6, "{profile}");
    let idle = &profile["idle"];
    let parts = ["device_seconds", "run_queue_seconds", "other_seconds"].map(|key| number(idle, key));
    assert!((parts.iter().sum::<f64>() - number(&profile, "idle_seconds").max(0.0)).abs() < 1e-6, "{idle}");
    assert!(idle["device_source"].as_str().unwrap().len() > 10, "{idle}");
    assert_eq!((&profile["killed"], &profile["ended"]["how"]), (&Value::Bool(false), &Value::from("exited")));
}

/// B4: by SIGKILL, by SIGTERM, and by both through the profiler.
#[test]
fn a_killed_job_has_its_profile_and_it_says_so() {
    for (signal, number_of_signal) in [("KILL", 9), ("TERM", 15)] {
        let (code, profile) =
            script(&[], &format!("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; kill -{signal} $$"));
        assert_eq!(code, Some(128 + number_of_signal), "{profile}");
        assert_eq!(profile["killed"], true);
        assert_eq!(profile["ended"]["how"], "signalled");
        assert_eq!(profile["ended"]["signal"], format!("SIG{signal}"));
        assert!(number(&profile, "cpu_seconds") > 0.005, "{profile}");
    }
}

/// B4: at the wall time; the job is told first, and killed when it does not listen, with all it has started.
#[test]
fn at_the_time_limit_a_job_ends_and_its_profile_is_there() {
    let (code, profile) = script(&["--timeout", "0.3"], "sleep 60");
    assert_eq!((code, &profile["ended"]["how"]), (Some(124), &Value::from("time-limit")));
    assert!(number(&profile, "elapsed_seconds") < 5.0, "{profile}");
    let (code, profile) =
        script(&["--timeout", "0.3", "--grace", "0.3"], "trap '' TERM; (trap '' TERM; sleep 60) & sleep 61");
    assert_eq!((code, &profile["killed"]), (Some(124), &Value::Bool(true)));
    let elapsed = number(&profile, "elapsed_seconds");
    assert!((0.6..5.0).contains(&elapsed), "{profile}");
}

/// B4: a batch system ends the whole step with SIGTERM.
#[test]
fn a_profiler_told_to_end_passes_it_on_and_leaves_a_profile() {
    let here = tempfile::tempdir().unwrap();
    let mut child = start(here.path(), "sleep 60 & echo >ready; wait");
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    let profile = read(&here.path().join("p.json"));
    assert_eq!((&profile["killed"], &profile["ended"]["told_to_end"]), (&Value::Bool(true), &Value::from("SIGTERM")));
    assert_eq!(profile["processes"]["left_running"], 0, "the sleep behind the shell has ended, too: {profile}");

    // A job may take its time to end well.
    fs::remove_file(here.path().join("ready")).unwrap();
    let mut child = start(here.path(), "trap 'sleep 0.3; exit 5' TERM; echo >ready; while :; do sleep 0.05; done");
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let profile = read(&here.path().join("p.json"));
    assert_eq!((&profile["killed"], &profile["ended"]["exit_code"]), (&Value::Bool(true), &Value::from(5)));
}

/// B4: the profiler itself is killed: what it knew is in its file, which says that the job had not ended.
#[test]
fn a_profiler_that_is_killed_leaves_what_it_knew() {
    let here = tempfile::tempdir().unwrap();
    let job = "echo $$ >pid; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo >ready; sleep 60";
    let mut child = start(here.path(), job);
    let path = here.path().join("p.json");
    wait_for("a profile with processor time", || path.exists() && number(&read(&path), "cpu_seconds") > 0.05);
    send("-KILL", child.id());
    child.wait().unwrap();
    let profile = read(&path);
    assert_eq!(profile["ended"]["how"], "running");
    assert!(number(&profile, "elapsed_seconds") > 0.5, "{profile}");
    let pid = fs::read_to_string(here.path().join("pid")).unwrap();
    send("-KILL", pid.trim().parse().unwrap());
}

#[test]
fn a_tree_of_processes_is_counted_as_a_whole() {
    // Each of three grandchildren writes 20 MB; one is waited for by the shell, one by nobody but the profiler.
    let write = "head -c 20000000 /dev/zero >$0.dat";
    let (_, profile) =
        script(&[], &format!("sh -c '{write}' a; sh -c 'sh -c \"{write}\" b; sh -c \"{write} & wait\" c' x"));
    let written = number(&profile["io"], "written_bytes");
    assert!((60e6..61e6).contains(&written), "{written}");
    assert!(number(&profile["io"], "read_bytes") >= 60e6, "{}", profile["io"]);
    assert!(number(&profile["io"], "write_calls") >= 3.0);
    // Dirty pages are charged to who made them dirty.
    assert!(number(&profile["processes"], "seen") >= 1.0);
}

/// A program that replaces itself again and again is one process, and all its time counts.
#[test]
fn a_chain_of_exec_is_counted() {
    let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let once = number(&script(&[], spin).1, "user_seconds");
    let (code, profile) =
        script(&[], &format!("{spin}; exec sh -c '{spin}; exec sh -c \"{}; exit 3\"'", spin.replace('$', "\\$")));
    assert_eq!(code, Some(3));
    let chained = number(&profile, "user_seconds");
    assert!(chained > 1.8 * once, "{chained} against three times {once}");
}

/// Its parents are gone, its session is its own, and still it is the job's.
#[test]
fn a_daemon_is_followed_or_named() {
    let job = "setsid sh -c 'sh -c \"sleep 0.4; head -c 10000000 /dev/zero >daemon.dat\" &' >/dev/null 2>&1 & exit 0";
    let (code, profile) = script(&["--follow"], job);
    assert_eq!((code, &profile["processes"]["left_running"]), (Some(0), &Value::from(0)));
    assert!(number(&profile["io"], "written_bytes") >= 10e6, "{profile}");
    assert!(number(&profile, "elapsed_seconds") >= 0.4);

    let (code, profile) = script(&[], "(sleep 1 & exec sleep 0.2)");
    assert_eq!((code, &profile["processes"]["left_running"]), (Some(0), &Value::from(1)), "{profile}");
    assert!(profile["notes"].to_string().contains("still running"), "{profile}");
}

#[test]
fn bytes_and_calls_are_exact_and_placed() {
    let here = tempfile::tempdir_in(".").unwrap();
    // dd counts itself: 40 calls of a million bytes each way, slow enough to be seen.
    let job = "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero bs=1000000 count=5 status=none; sleep 0.03; done >data.bin; sync data.bin";
    let output = run(here.path(), &["--json", "--interval", "0.02", "--", "sh", "-c", job]);
    let profile: Value = serde_json::from_slice(&output.stdout).unwrap();
    let io = &profile["io"];
    assert!((40e6..40.1e6).contains(&number(io, "written_bytes")), "{io}");
    assert!((40.0..60.0).contains(&number(io, "write_calls")), "{io}");
    assert!(profile["file_systems_source"].as_str().unwrap().len() > 20);
}

/// GNU time measures the same job from within.
#[test]
fn timing_user_and_system_agree_with_gnu_time() {
    if !Path::new("/usr/bin/time").exists() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let job = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; head -c 400000000 /dev/zero >/dev/null";
    let arguments = ["-o", "p.json", "--", "/usr/bin/time", "-f", "%U %S %e", "-o", "t.txt", "sh", "-c", job];
    assert_eq!(run(here.path(), &arguments).status.code(), Some(0));
    let text = fs::read_to_string(here.path().join("t.txt")).unwrap();
    let times: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let profile = read(&here.path().join("p.json"));
    let (ours, theirs) = (number(&profile, "cpu_seconds"), times[0] + times[1]);
    // Its own start is not in its figure; it prints hundredths.
    assert!((ours - theirs).abs() <= 0.02 * theirs + 0.02, "{ours} against {theirs}");
}

#[test]
fn a_jobs_own_word_on_its_time_is_heard() {
    let here = tempfile::tempdir().unwrap();
    let log = fs::File::create(here.path().join("job.log")).unwrap();
    let mut command = profiler(
        here.path(),
        &["-o", "p.json", "--", "echo", " Job cpu time:  0 days  0 hours  0 minutes  0.5 seconds."],
    );
    assert!(command.stdout(log).status().unwrap().success());
    let profile = read(&here.path().join("p.json"));
    assert_eq!(
        (&profile["reported"]["program"], &profile["reported"]["cpu_seconds"]),
        (&Value::from("Gaussian"), &Value::from(0.5))
    );
}

#[test]
fn a_job_is_compared_in_several_directories() {
    let here = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(here.path().join(name)).unwrap();
    }
    let job =
        "test \"$TMPDIR\" = {} && cd {} && head -c 1000000 /dev/zero >scratch.dat && test \"$SCRATCH\" = \"$PWD\"";
    let options = [
        "--compare",
        "a",
        "b",
        "--labels",
        "first,second",
        "--name",
        "made up",
        "-o",
        "all.jsonl",
        "--",
        "sh",
        "-c",
        job,
    ];
    let output = run(here.path(), &options);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in ["first", "second", "made up", "idle (s)", "elapsed (s)", "Elapsed times differ"] {
        assert!(told.contains(word) || word == "Elapsed times differ" && told.contains("fastest"), "{word}: {told}");
    }
    let lines = fs::read_to_string(here.path().join("all.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    for name in ["a", "b"] {
        assert_eq!(fs::read_dir(here.path().join(name)).unwrap().count(), 0, "scratch is removed");
    }
    let output = run(here.path(), &["--table", "all.jsonl"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("made up"));
}

#[test]
fn wrong_calls_and_programs_that_do_not_start() {
    let here = tempfile::tempdir().unwrap();
    for (code, arguments) in [
        (2, &["--interval", "0", "--", "true"][..]),
        (2, &[]),
        (2, &["--compare", "missing", "--", "true"]),
        (2, &["--compare", ".", "--labels", "a,b", "--", "true"]),
        (1, &["-o", "missing/p.json", "--", "true"]),
        (2, &["-o", ".", "--", "true"]),
        (127, &["--", "no-such-program"]),
        (126, &["--", "/"]),
        (1, &["--table", "missing.json"]),
    ] {
        let output = run(here.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}
