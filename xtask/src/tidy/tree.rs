//! The files of the workspace, as the rules see them.
//!
//! Holds every path and the text of those that are text; leaves out what builds and version control put beside them.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Folders that are not ours, wherever they lie (in a linked worktree `.git` is a file). Folders with a `CACHEDIR.TAG` (cargo's target directories under other names) go
/// as well; cargo leaves the tag out of a `target` that was there before it.
const FOREIGN_NAMES: [&str; 5] = [".git", ".venv", "__pycache__", "node_modules", "target"];

/// Files by path relative to the workspace, `/` between folders; `None` for what is not UTF-8.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads everything below `root`.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if FOREIGN_NAMES.contains(&name.as_str()) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !entry.path().join("CACHEDIR.TAG").exists() {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() {
                self.files.insert(path, String::from_utf8(fs::read(entry.path())?).ok());
            }
        }
        Ok(())
    }

    /// A tree in memory.
    #[cfg(test)]
    pub fn from_files(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|&(path, text)| (path.to_owned(), Some(text.to_owned()))).collect();
        Self { files }
    }

    /// Text files as (path, text), sorted by path.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Text files whose path ends so.
    pub fn texts_ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter(move |(path, _)| path.ends_with(suffix))
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether there is such a file, or a folder with a file in it.
    pub fn exists(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(found, _)| found.starts_with(&folder))
    }

    /// Manifests of the packages, as (folder, parsed); the workspace's own and broken ones (cargo says so) are left out.
    pub fn packages(&self) -> impl Iterator<Item = (&str, toml::Table)> {
        self.texts_ending("/Cargo.toml")
            .filter_map(|(path, text)| Some((path.strip_suffix("/Cargo.toml")?, text.parse().ok()?)))
    }
}

/// The name in a package's manifest.
pub fn package_name(manifest: &toml::Table) -> &str {
    manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_through_their_files() {
        let tree = Tree::from_files(&[("docs/a.md", ""), ("docs-b/c.md", "")]);
        assert!(tree.exists("docs") && tree.exists("docs/") && tree.exists("docs/a.md"));
        assert!(!tree.exists("doc") && !tree.exists("docs/c.md"));
    }

    #[test]
    fn the_workspace_itself_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent");
        let tree = Tree::read(root).expect("readable");
        assert!(tree.text("Cargo.toml").is_some());
        assert!(tree.packages().any(|(folder, manifest)| folder == "xtask" && package_name(&manifest) == "xtask"));
        assert!(!tree.exists(".git"));
    }
}
