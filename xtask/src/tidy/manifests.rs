//! What every package says of itself.
//!
//! One sentence of description, repeated in `docs/ARCHITECTURE.md`, so that the drawing there cannot go stale unnoticed;
//! the workspace's licence and lints; a folder named like the crate.

use super::Problem;
use super::tree::{Tree, package_name};

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const LICENSE: &str = "MIT OR Apache-2.0";

pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    let root: toml::Table = tree.text("Cargo.toml").and_then(|text| text.parse().ok()).unwrap_or_default();
    let license = root.get("workspace").and_then(|table| table.get("package")?.get("license")?.as_str());
    if license != Some(LICENSE) {
        problems.push(Problem::new("Cargo.toml", 0, format!("the workspace's licence is {LICENSE}")));
    }
    for licence_file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        if !tree.exists(licence_file) {
            problems.push(Problem::new(licence_file, 0, "the licence's text is missing"));
        }
    }
    for (folder, manifest) in tree.packages() {
        check_package(tree, folder, &manifest, problems);
    }
}

fn check_package(tree: &Tree, folder: &str, manifest: &toml::Table, problems: &mut Vec<Problem>) {
    let path = format!("{folder}/Cargo.toml");
    let name = package_name(manifest);
    let package = manifest.get("package");
    let mut report = |message: String| problems.push(Problem::new(&path, 0, message));

    if folder.starts_with("crates/") && folder != format!("crates/{name}") {
        report(format!("the crate {name} belongs in crates/{name}"));
    }
    if !inherits(package.and_then(|package| package.get("license"))) {
        report("license.workspace = true is missing".to_owned());
    }
    if !inherits(manifest.get("lints")) {
        report("[lints] workspace = true is missing".to_owned());
    }
    match package.and_then(|package| package.get("description")?.as_str()) {
        None => report("no description".to_owned()),
        Some(text) if !is_one_sentence(text) => {
            report(format!("the description is one sentence with a full stop: {text:?}"))
        }
        Some(text) => {
            // The document may break the sentence over lines.
            let architecture =
                tree.text(ARCHITECTURE).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
            if !architecture.contains(text) {
                report(format!("{ARCHITECTURE} does not repeat the description of {name}: {text:?}"));
            }
        }
    }
}

/// `{ workspace = true }`.
fn inherits(value: Option<&toml::Value>) -> bool {
    value.and_then(|value| value.get("workspace")?.as_bool()) == Some(true)
}

/// Ends with the only full stop that ends anything ('3-D' and `netCDF-4/HDF5` are fine, 'One. Two.' is not).
fn is_one_sentence(text: &str) -> bool {
    text.ends_with('.') && !text.trim_end_matches('.').contains(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\ndescription = \"Does a thing.\"\nlicense.workspace = true\n[lints]\nworkspace = true\n";
    const ROOT: &str = "[workspace.package]\nlicense = \"MIT OR Apache-2.0\"\n";

    fn messages(manifest: &str, architecture: &str) -> Vec<String> {
        let tree = Tree::from_files(&[
            ("Cargo.toml", ROOT),
            ("LICENSE-MIT", ""),
            ("LICENSE-APACHE", ""),
            ("crates/a/Cargo.toml", manifest),
            (ARCHITECTURE, architecture),
        ]);
        let mut problems = Vec::new();
        check(&tree, &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_manifest_passes_even_with_its_sentence_broken_over_lines() {
        assert_eq!(messages(GOOD, "a: Does a\n   thing.\n"), [""; 0]);
    }

    #[test]
    fn each_omission_is_named() {
        assert!(messages(GOOD, "").concat().contains("does not repeat"));
        for (taken, message) in [
            ("license.workspace = true\n", "license"),
            ("[lints]\nworkspace = true\n", "lints"),
            ("description = \"Does a thing.\"\n", "no description"),
        ] {
            assert!(messages(&GOOD.replace(taken, ""), "Does a thing.").concat().contains(message), "{message}");
        }
        let two = GOOD.replace("a thing.", "a thing. And another.");
        assert!(messages(&two, "Does a thing. And another.").concat().contains("one sentence"));
        let elsewhere = GOOD.replace("name = \"a\"", "name = \"b\"");
        assert!(messages(&elsewhere, "Does a thing.").concat().contains("crates/b"));
    }

    #[test]
    fn missing_licences_are_named() {
        let mut problems = Vec::new();
        check(&Tree::from_files(&[("Cargo.toml", "[workspace.package]\nlicense = \"GPL-3.0\"\n")]), &mut problems);
        assert_eq!(problems.len(), 3);
    }
}
