//! Runs tests under the timing rule: within a test, directories and tools take turns.

use super::measurement::{Measurement, Missing, Outcome};
use super::place::Place;
use super::sample::Sample;
use super::test::{ScratchJob, Test};
use super::work::Work;
use super::{Options, StorageError, fio};
use crate::host::Host;
use crate::janitor::Janitor;
use crate::timing::Runs;
use std::path::PathBuf;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Tests that are complete.
    pub tests_done: usize,
    /// The one under way.
    pub test: Test,
}

/// One test, one directory, one tool: the runs so far.
struct Contestant<'a> {
    place: &'a Place,
    label: &'a str,
    tool: &'static str,
    runs: Runs,
    samples: Vec<Sample>,
    refused: Option<StorageError>,
}

/// Measures everything that `options` ask for, in order of tests; `observe` hears of each.
///
/// # Errors
///
/// Options that do not fit together, too little room, faults of a file system, data that come back different. A way of
/// access that a file system does not know is a result, not an error.
pub fn run(options: &Options, observe: &mut dyn FnMut(Progress)) -> Result<Vec<Outcome>, StorageError> {
    options.check()?;
    if options.fio && !fio::is_installed() {
        return Err(StorageError::Fio("it is not installed".to_owned()));
    }
    // Dropped after the places: what they have removed themselves is not there any more.
    let mut janitor = options.program.as_ref().map(Janitor::start).transpose()?;
    let place = |directory: &PathBuf| Place::new(directory, janitor.as_mut());
    let places = options.directories.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    places.iter().try_for_each(|place| check_room(place, options))?;
    let host = Host::current();
    let mut work = Work::new(options);
    let mut outcomes = Vec::new();
    for (tests_done, &test) in options.tests.iter().enumerate() {
        observe(Progress { tests_done, test });
        let mut contestants = contestants(test, &places, options);
        loop {
            let mut any = false;
            for contestant in &mut contestants {
                any |= contestant.turn(test, &mut work, options)?;
            }
            if !any {
                break;
            }
        }
        outcomes.extend(contestants.into_iter().filter_map(|contestant| contestant.outcome(test, options, &host)));
    }
    Ok(outcomes)
}

fn contestants<'a>(test: Test, places: &'a [Place], options: &'a Options) -> Vec<Contestant<'a>> {
    let tools: &[&'static str] = if options.fio && fio::knows(test) { &["afflux", "fio"] } else { &["afflux"] };
    let with_labels = places.iter().enumerate().map(|(index, place)| {
        (place, options.labels.get(index).map_or(place.file_system.source.as_str(), String::as_str))
    });
    with_labels
        .flat_map(|(place, label)| {
            let new = move |&tool| Contestant {
                place,
                label,
                tool,
                runs: Runs::default(),
                samples: Vec::new(),
                refused: None,
            };
            tools.iter().map(new)
        })
        .collect()
}

impl Contestant<'_> {
    /// Runs once more if the rule asks for it; returns whether it did.
    fn turn(&mut self, test: Test, work: &mut Work<'_>, options: &Options) -> Result<bool, StorageError> {
        if self.refused.is_some() || !self.runs.wants_another(&options.rule) {
            return Ok(false);
        }
        let run = if self.tool == "fio" {
            work.prepare(test, self.place).and_then(|()| fio::run(test, self.place, options))
        } else {
            work.run(test, self.place)
        };
        match run {
            Ok(sample) => {
                self.runs.record(sample.elapsed_seconds);
                self.samples.push(sample);
                Ok(true)
            }
            // What fio refuses, its own words say; it is no reason to lose the rest.
            Err(error) if error.is_unsupported() || matches!(error, StorageError::Fio(_)) => {
                self.refused = Some(error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn outcome(self, test: Test, options: &Options, host: &Host) -> Option<Outcome> {
        if let Some(error) = self.refused {
            return Some(Outcome::Missing(Missing {
                benchmark: "storage",
                test,
                tool: self.tool,
                directory: self.place.directory.display().to_string(),
                label: self.label.to_owned(),
                file_system: self.place.file_system.clone(),
                missing: error.to_string(),
            }));
        }
        let counted = &self.samples[self.runs.first_counted(&options.rule)..];
        let measured = Measurement::new(test, self.tool, (self.place, self.label), counted, options, host)?;
        Some(Outcome::Measured(Box::new(measured)))
    }
}

/// Refuses directories without room for what is on them at once: a file to read, a new one or the scratch files.
fn check_room(place: &Place, options: &Options) -> Result<(), StorageError> {
    let scratch = |test: &Test| match test {
        Test::Scratch(job) => job.file_bytes(options.scratch_bytes, options.block_bytes as u64).iter().sum(),
        _ => options.size_bytes,
    };
    let has_data = options.tests.iter().any(|test| !matches!(test, Test::Scratch(ScratchJob::Large)));
    let largest: u64 = options.tests.iter().map(scratch).max().unwrap_or(0);
    // A twentieth for what the file system itself needs.
    let files = largest + if has_data { options.size_bytes } else { 0 };
    let needed_bytes = files + files / 20;
    let free_bytes = place.free_bytes();
    if free_bytes < needed_bytes {
        return Err(StorageError::Space { directory: place.directory.clone(), free_bytes, needed_bytes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Rule;

    fn options(directories: &[&std::path::Path]) -> Options {
        Options {
            size_bytes: 1 << 18,
            scratch_bytes: 1 << 18,
            block_bytes: 1 << 16,
            passes: 2,
            operations: 10,
            fsync_operations: 2,
            compute_ms_per_mib: 0.0,
            rule: Rule { warmups: 1, repetitions: 2, seconds_max: 10.0 },
            ..Options::new(directories.iter().map(|path| path.to_path_buf()).collect())
        }
    }

    #[test]
    fn every_directory_has_a_row_for_every_test() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in(".").unwrap());
        let options = Options { labels: vec!["one".into(), "two".into()], ..options(&[a.path(), b.path()]) };
        let mut heard = Vec::new();
        let outcomes = run(&options, &mut |progress| heard.push(progress.test)).unwrap();
        assert_eq!(heard, options.tests);
        assert_eq!(outcomes.len(), 2 * options.tests.len());
        for outcome in &outcomes {
            let value = serde_json::to_value(outcome).unwrap();
            assert_eq!(value["benchmark"], "storage");
            let Outcome::Measured(measured) = outcome else { continue };
            assert_eq!(measured.time.repetitions, 2);
            let parts = measured.user_seconds + measured.system_seconds + measured.idle_seconds;
            assert!(measured.time.samples_seconds.iter().any(|sample| (sample - parts).abs() < 1e-9), "{measured:?}");
            assert!(["one", "two"].contains(&measured.label.as_str()));
        }
        let table = super::super::table(&outcomes).text();
        assert!(table.contains("scratch") && table.contains("two"), "{table}");
        assert!(super::super::page(&outcomes).contains("</html>"));
        for directory in [a.path(), b.path()] {
            assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_written() {
        let here = tempfile::tempdir().unwrap();
        let good = options(&[here.path()]);
        for (change, wrong) in [
            ("block", Options { block_bytes: 1000, ..good.clone() }),
            ("size", Options { size_bytes: (1 << 18) + 4096, ..good.clone() }),
            ("labels", Options { labels: vec!["a".into(), "b".into()], ..good.clone() }),
            ("directories", Options { directories: Vec::new(), ..good.clone() }),
            ("operations", Options { operations: 0, ..good.clone() }),
        ] {
            assert!(matches!(run(&wrong, &mut |_| ()), Err(StorageError::Options(_))), "{change}");
        }
        let huge = Options { size_bytes: 1 << 60, ..good };
        assert!(matches!(run(&huge, &mut |_| ()), Err(StorageError::Space { .. })));
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
    }
}
