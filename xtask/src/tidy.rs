//! The rules of the house, each a pure function from the tree of files to the problems in it.
//!
//! - [`layers`]: which crate may depend on which, and where a foreign library or `unsafe` may be named;
//! - [`manifests`]: names, licences, and the one-sentence description that the architecture repeats;
//! - [`sources`]: what every source file keeps to;
//! - [`links`]: links between documents.
//!
//! A rule sees only [`tree::Tree`], so its tests give it a small tree in memory and see it fail.

mod layers;
mod links;
mod manifests;
mod sources;
mod tree;

use std::fmt;
use std::path::Path;
use tree::Tree;

/// Something to put right, in the `file:line: what` form that editors jump to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, relative to the workspace.
    pub path: String,
    /// Line from 1; 0 where the whole file is meant.
    pub line: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(formatter, "{}: {}", self.path, self.message),
            line => write!(formatter, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Checks the workspace at `root`; the problems come sorted by file and line.
pub fn run(root: &Path) -> std::io::Result<Vec<Problem>> {
    Ok(check(&Tree::read(root)?))
}

fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    layers::check(tree, &mut problems);
    manifests::check(tree, &mut problems);
    sources::check(tree, &mut problems);
    links::check(tree, &mut problems);
    problems.sort();
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_read_like_compiler_messages() {
        assert_eq!(Problem::new("a/b.rs", 3, "wrong").to_string(), "a/b.rs:3: wrong");
        assert_eq!(Problem::new("a/b.rs", 0, "wrong").to_string(), "a/b.rs: wrong");
    }

    #[test]
    fn every_rule_is_run() {
        let tree = Tree::from_files(&[
            ("crates/afflux-plan/Cargo.toml", "[package]\nname = \"afflux-plan\"\n[dependencies]\nmpi = \"0.8\"\n"),
            ("crates/afflux-plan/src/lib.rs", "fn f() {}\n"),
            ("README.md", "[gone](gone.md)\n"),
        ]);
        let problems = check(&tree);
        for part in ["mpi", "description", "//!", "gone.md"] {
            assert!(problems.iter().any(|problem| problem.message.contains(part)), "{part} in {problems:?}");
        }
    }
}
