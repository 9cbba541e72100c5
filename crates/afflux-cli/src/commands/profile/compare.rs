//! One job in several scratch directories, and the table of what came of it.

use super::{Profile, cannot_run, exit_code, tell};
use crate::failure::Failure;
use crate::{new_file, output};
use afflux_measure::host::FileSystem;
use afflux_measure::profile::{self, Scratch, table};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

/// What tells a job where its scratch is; Gaussian's own name among them.
const VARIABLES: [&str; 3] = ["TMPDIR", "SCRATCH", "GAUSS_SCRDIR"];

impl Profile {
    /// Runs the job in each directory; the exit code is the first that is not 0.
    pub(super) fn run_in_each(&self) -> Result<ExitCode, Failure> {
        self.check_directories()?;
        self.check_output()?;
        let mut profiles: Vec<profile::Profile> = Vec::new();
        for (index, directory) in self.compare.iter().enumerate() {
            if self.drop_caches {
                drop_caches()?;
            }
            // It goes away with what the job leaves in it.
            let scratch =
                tempfile::Builder::new().prefix("afflux-scratch-").tempdir_in(directory).map_err(|error| {
                    Failure::failed(format!("cannot make a directory in {}: {error}", directory.display()))
                })?;
            let label = self.labels.get(index).cloned().unwrap_or_default();
            let options = self.in_directory(scratch.path(), label);
            let run = profile::run(&options, &mut |profile| {
                self.save(&[profiles.as_slice(), std::slice::from_ref(profile)].concat());
            });
            let profile = match run {
                Ok(profile) => profile,
                Err(error) => return cannot_run(&error),
            };
            let is_told_to_end = profile.ended.told_to_end.is_some();
            profiles.push(profile);
            self.save(&profiles);
            if let Err(error) = scratch.close() {
                tell(&format!("afflux: the scratch directory could not be removed: {error}\n"));
            }
            if is_told_to_end {
                break;
            }
        }
        self.print(&profiles)?;
        let failed = profiles.iter().map(exit_code).find(|code| *code != ExitCode::SUCCESS);
        Ok(failed.unwrap_or(ExitCode::SUCCESS))
    }

    /// Prints the table of files written before.
    pub(super) fn print_table(&self) -> Result<ExitCode, Failure> {
        let mut profiles = Vec::new();
        for path in &self.table {
            let unreadable = |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", path.display()));
            let text = fs::read_to_string(path).map_err(|error| unreadable(&error))?;
            for profile in serde_json::Deserializer::from_str(&text).into_iter::<profile::Profile>() {
                profiles.push(profile.map_err(|error| unreadable(&error))?);
            }
        }
        self.write_page(&profiles)?;
        if self.json {
            profiles.iter().try_for_each(output::print_json)?;
        } else {
            output::print(&self.words(&profiles))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, profiles: &[profile::Profile]) -> Result<(), Failure> {
        self.write_page(profiles)?;
        if self.json {
            return profiles.iter().try_for_each(output::print_json);
        }
        tell(&self.words(profiles));
        Ok(())
    }

    fn words(&self, profiles: &[profile::Profile]) -> String {
        let table = table::table(profiles);
        let text = if self.markdown { table.markdown() } else { table.text() };
        format!("{text}\n{}", table::verdict(profiles))
    }

    fn write_page(&self, profiles: &[profile::Profile]) -> Result<(), Failure> {
        self.html.as_ref().map_or(Ok(()), |path| new_file::write_text(path, &table::page(profiles)))
    }

    fn check_directories(&self) -> Result<(), Failure> {
        if let Some(missing) = self.compare.iter().find(|directory| !directory.is_dir()) {
            return Err(Failure::usage(format!(
                "{} is no directory; --compare names existing ones",
                missing.display()
            )));
        }
        if !self.labels.is_empty() && self.labels.len() != self.compare.len() {
            return Err(Failure::usage(format!(
                "{} labels for {} directories; give one for each",
                self.labels.len(),
                self.compare.len()
            )));
        }
        Ok(())
    }

    fn in_directory(&self, directory: &Path, label: String) -> profile::Options {
        let command = self.command.iter().map(|word| fill_in(word, directory)).collect();
        let mut options = self.options(command);
        options.environment = VARIABLES.iter().map(|name| (OsString::from(name), directory.into())).collect();
        options.scratch =
            Some(Scratch { directory: directory.display().to_string(), label, file_system: FileSystem::of(directory) });
        options
    }
}

/// Puts the directory in place of every `{}`.
fn fill_in(word: &OsString, directory: &Path) -> OsString {
    let (mut rest, mut filled) = (word.as_bytes(), Vec::new());
    while let Some(at) = rest.windows(2).position(|pair| pair == b"{}") {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(directory.as_os_str().as_bytes());
        rest = &rest[at + 2..];
    }
    filled.extend_from_slice(rest);
    OsString::from_vec(filled)
}

/// So that no run finds in memory what the one before has read.
fn drop_caches() -> Result<(), Failure> {
    afflux_measure::host::write_back();
    fs::write("/proc/sys/vm/drop_caches", "3")
        .map_err(|error| Failure::failed(format!("cannot drop the page cache (--drop-caches needs root): {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_stands_for_every_pair_of_braces() {
        let fill = |word: &str| fill_in(&word.into(), Path::new("/s/x")).into_string().unwrap();
        assert_eq!(fill("cd {} && cp a {}/b"), "cd /s/x && cp a /s/x/b");
        assert_eq!(fill("{}"), "/s/x");
        assert_eq!(fill("{ } {"), "{ } {");
        assert_eq!(fill(""), "");
    }
}
