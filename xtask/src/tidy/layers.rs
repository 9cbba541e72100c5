//! Arrows point down only, and each foreign library is named in one crate.
//!
//! What is allowed is a table here, not what the manifests happen to say: a new arrow is a decision, made in this file and
//! drawn in `docs/ARCHITECTURE.md`.

use super::tree::{Tree, package_name};
use super::{Problem, sources};

/// What each package may use of the workspace. A package that is not listed may use nothing of it.
const ARROWS: &[(&str, &[&str])] = &[
    ("afflux-plan", &[]),
    ("afflux-comm", &[]),
    ("afflux-storage", &[]),
    ("afflux-container", &["afflux-storage"]),
    ("afflux-collective", &["afflux-plan", "afflux-comm", "afflux-storage"]),
    ("afflux-series", &["afflux-collective", "afflux-container", "afflux-comm", "afflux-storage", "afflux-plan"]),
    (
        "afflux",
        &["afflux-series", "afflux-collective", "afflux-container", "afflux-comm", "afflux-storage", "afflux-plan"],
    ),
    ("afflux-measure", &["afflux"]),
    ("afflux-fdtd", &["afflux"]),
    ("afflux-cli", &["afflux", "afflux-measure", "afflux-fdtd"]),
    // Reads what the command left, as a user of the library would.
    ("afflux-kill", &["afflux", "afflux-measure"]),
    ("xtask", &[]),
];

/// Foreign libraries that have one home, by the start of their package name, and the packages that may name them.
const HOMES: &[(&str, &[&str])] = &[
    ("mpi", &["afflux-comm"]),
    ("hdf5", &["afflux-container"]),
    ("netcdf", &["afflux-container"]),
    ("rustix", &["afflux-storage"]),
    // Processes, signals and file systems as what is measured; nothing else of the house starts or watches processes.
    ("nix", &["afflux-measure"]),
    // Types of the C interfaces next to it, and for placing threads; the file calls of it are in RAW_FILE_CALLS.
    ("libc", &["afflux-storage", "afflux-container", "afflux-comm", "afflux-measure"]),
];

/// Packages whose `src` may hold `unsafe` (each use with its safety argument, which clippy checks).
const UNSAFE_ALLOWED: &[&str] = &["afflux-comm", "afflux-container", "afflux-storage", "afflux-capi"];

/// Files and folders of other packages that may, each with its reason.
const UNSAFE_IN: &[(&str, &str)] = &[
    ("crates/afflux-collective/src/windows.rs", "buffers that several ranks fill at once, each its own bytes"),
    ("crates/afflux-collective/src/windows/region.rs", "the same"),
    ("crates/afflux-measure/src/sys.rs", "the front page of the folder"),
    ("crates/afflux-measure/src/sys/", "system calls that the benchmarks measure and that no library offers safely"),
];

/// Packages in which bytes reach files only through `afflux-storage`. The front doors read models and write pictures.
const FILES_THROUGH_STORAGE: &[&str] =
    &["afflux-plan", "afflux-comm", "afflux-container", "afflux-collective", "afflux-series", "afflux"];

/// Ways to reach a file past the storage.
const RAW_FILE_CALLS: &[&str] = &[
    "std::fs",
    "File::open",
    "File::create",
    "OpenOptions",
    "libc::open",
    "libc::pread",
    "libc::pwrite",
    "libc::write(",
];

/// Files that may all the same, each with its reason.
const PAST_STORAGE: &[(&str, &str)] = &[
    ("crates/afflux-comm/src/mpi/node/memory.rs", "opens another rank's memory, which has no name but one in /proc"),
    ("crates/afflux-container/src/reader.rs", "reads a finished or live file by name, as any other reader does"),
    ("crates/afflux-container/src/reader/raw.rs", "the same, through HDF5's stock driver"),
    ("crates/afflux-container/src/reader/heap.rs", "the same, for the names in the global heap"),
    (
        "crates/afflux-container/src/plain.rs",
        "reads back, through HDF5 itself, what the baseline of the benchmarks wrote",
    ),
    ("crates/afflux-series/src/points.rs", "a list of stations is a text of the user's, not sample data"),
];

/// Packages that must forbid `unsafe` in so many words.
const UNSAFE_FORBIDDEN: &[&str] = &["afflux-plan"];

pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    for (folder, manifest) in tree.packages() {
        let package = package_name(&manifest);
        let path = format!("{folder}/Cargo.toml");
        check_arrows(&path, package, &manifest, problems);
        check_sources(tree, folder, package, problems);
        if UNSAFE_FORBIDDEN.contains(&package) {
            let front = format!("{folder}/src/lib.rs");
            if !tree.text(&front).is_some_and(|text| text.contains("#![forbid(unsafe_code)]")) {
                problems.push(Problem::new(&front, 0, format!("{package} is pure: it says #![forbid(unsafe_code)]")));
            }
        }
    }
}

/// Every dependency, of whatever kind and for whatever target, against the two tables.
fn check_arrows(path: &str, package: &str, manifest: &toml::Table, problems: &mut Vec<Problem>) {
    let allowed = ARROWS.iter().find(|(name, _)| *name == package).map_or(&[] as &[&str], |(_, allowed)| allowed);
    for dependency in dependencies(manifest) {
        let ours = dependency == "afflux" || dependency.starts_with("afflux-") || dependency == "xtask";
        if ours && !allowed.contains(&dependency.as_str()) {
            problems.push(Problem::new(path, 0, format!("{package} may not depend on {dependency} (xtask layers.rs)")));
        }
        for (prefix, homes) in HOMES {
            let named = dependency == *prefix || dependency.starts_with(&format!("{prefix}-"));
            if named && !homes.contains(&package) {
                problems.push(Problem::new(path, 0, format!("{dependency} is named in {} only", homes.join(", "))));
            }
        }
    }
}

/// Package names of all dependencies, renamed ones by their real name.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let scopes = targets.into_iter().flat_map(|targets| targets.values().filter_map(toml::Value::as_table));
    std::iter::once(manifest)
        .chain(scopes)
        .flat_map(|scope| KINDS.iter().filter_map(|kind| scope.get(*kind)?.as_table()))
        .flat_map(|table| {
            table
                .iter()
                .map(|(key, value)| value.get("package").and_then(toml::Value::as_str).unwrap_or(key).to_owned())
        })
        .collect()
}

/// `unsafe`, hand-made bindings and raw file calls in a package's sources, tests aside.
fn check_sources(tree: &Tree, folder: &str, package: &str, problems: &mut Vec<Problem>) {
    let sources_folder = format!("{folder}/src/");
    for (path, text) in tree.texts_ending(".rs").filter(|(path, _)| path.starts_with(&sources_folder)) {
        for (line, code) in sources::code_without_tests(path, text) {
            if !UNSAFE_ALLOWED.contains(&package) && !UNSAFE_IN.iter().any(|(home, _)| path.starts_with(home)) {
                if sources::has_word(&code, "unsafe") {
                    problems.push(Problem::new(path, line, format!("no unsafe in {package}")));
                }
                if code.contains("#[link") {
                    problems.push(Problem::new(path, line, format!("no bindings to foreign libraries in {package}")));
                }
            }
            if FILES_THROUGH_STORAGE.contains(&package)
                && !PAST_STORAGE.iter().any(|(exempt, _)| *exempt == path)
                && let Some(call) = RAW_FILE_CALLS.iter().find(|call| names(&code, call))
            {
                problems.push(Problem::new(path, line, format!("{call}: files are reached through afflux-storage")));
            }
        }
    }
}

/// Whether `call` stands in `code` as a name of its own: `SeriesFile::open` is no `File::open`.
fn names(code: &str, call: &str) -> bool {
    code.match_indices(call)
        .any(|(at, _)| !code[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_name_of_its_own() {
        assert!(names("let file = std::fs::File::open(path)?;", "File::open"));
        assert!(names("File::open(path)", "File::open"));
        assert!(!names("SeriesFile::open(path)", "File::open"));
    }

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let mut problems = Vec::new();
        check(&Tree::from_files(files), &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}")
    }

    #[test]
    fn an_arrow_down_is_allowed_and_one_up_is_not() {
        let down = manifest("afflux-collective", "[dependencies]\nafflux-plan.workspace = true\n");
        assert_eq!(messages(&[("crates/afflux-collective/Cargo.toml", &down)]), [""; 0]);
        let up = manifest("afflux-comm", "[dependencies]\nafflux-series.workspace = true\n");
        assert_eq!(messages(&[("crates/afflux-comm/Cargo.toml", &up)]).len(), 1);
    }

    #[test]
    fn an_unknown_package_may_use_nothing_of_ours() {
        let unknown = manifest("afflux-new", "[dev-dependencies]\nafflux-plan.workspace = true\n");
        assert_eq!(messages(&[("crates/afflux-new/Cargo.toml", &unknown)]).len(), 1);
    }

    #[test]
    fn foreign_libraries_are_found_under_targets_and_other_names() {
        let text = "[target.'cfg(unix)'.dependencies]\nmessages = { package = \"mpi\", version = \"0.8\" }\n";
        assert_eq!(messages(&[("crates/afflux-series/Cargo.toml", &manifest("afflux-series", text))]).len(), 1);
        assert_eq!(messages(&[("crates/afflux-comm/Cargo.toml", &manifest("afflux-comm", text))]), [""; 0]);
        let hdf5 = manifest("afflux-storage", "[build-dependencies]\nhdf5-metno-sys = \"0.12\"\n");
        assert_eq!(messages(&[("crates/afflux-storage/Cargo.toml", &hdf5)]).len(), 1);
    }

    #[test]
    fn plan_must_forbid_unsafe() {
        let files = |text| {
            [
                ("crates/afflux-plan/Cargo.toml", "[package]\nname = \"afflux-plan\""),
                ("crates/afflux-plan/src/lib.rs", text),
            ]
        };
        assert_eq!(messages(&files("//! Pure.\n")).len(), 1);
        assert_eq!(messages(&files("//! Pure.\n#![forbid(unsafe_code)]\n")), [""; 0]);
    }

    #[test]
    fn unsafe_and_raw_files_are_seen_in_code_but_not_in_comments_or_tests() {
        let manifest = manifest("afflux-series", "");
        let files =
            |text| [("crates/afflux-series/Cargo.toml", manifest.as_str()), ("crates/afflux-series/src/a.rs", text)];
        assert_eq!(messages(&files("fn f() { unsafe { g() } }\n")).len(), 1);
        assert_eq!(messages(&files("use std::fs::File;\n")).len(), 1);
        let measure = "[package]\nname = \"afflux-measure\"\n";
        let at = |path| [("crates/afflux-measure/Cargo.toml", measure), (path, "fn f() { unsafe { g() } }\n")];
        assert_eq!(messages(&at("crates/afflux-measure/src/sys/wait.rs")), [""; 0]);
        assert_eq!(messages(&at("crates/afflux-measure/src/system.rs")).len(), 1);
        assert_eq!(
            messages(&files("// unsafe, std::fs\nfn f() {}\n#[cfg(test)]\nmod tests {\n use std::fs;\n}\n")),
            [""; 0]
        );
    }
}
