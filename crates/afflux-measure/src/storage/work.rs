//! The tests themselves: each prepares what it needs outside the time and then does one timed run.

use super::place::{Buffer, Place, drop_from_cache, splitmix};
use super::sample::{Computing, Sample, time};
use super::test::{ScratchJob, Test};
use super::{Options, StorageError};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;

/// Length of small transfers: a page, and the block of nearly every file system.
pub const SMALL_BYTES: usize = 4096;
/// The file that is read.
pub const DATA: &str = "data";

/// What runs have in common.
#[derive(Debug)]
pub struct Work<'a> {
    options: &'a Options,
    buffer: Buffer,
    computing: Computing,
}

impl<'a> Work<'a> {
    /// Makes buffers, and finds out how much computing takes how long.
    #[must_use]
    pub fn new(options: &'a Options) -> Self {
        let block = options.block_bytes.max(SMALL_BYTES);
        let computing_seconds = options.compute_ms_per_mib * 1e-3 * block as f64 / f64::from(1 << 20);
        Self { options, buffer: Buffer::new(block, 1), computing: Computing::of_seconds(computing_seconds) }
    }

    /// One run of a test.
    ///
    /// # Errors
    ///
    /// Faults of the file system; data that come back different.
    pub fn run(&mut self, test: Test, place: &Place) -> Result<Sample, StorageError> {
        match test {
            Test::SequentialWrite | Test::SequentialWriteFsync | Test::SequentialWriteDirect => self.write(test, place),
            Test::SequentialReadCached | Test::SequentialReadCold | Test::SequentialReadDirect => {
                self.read(test, place)
            }
            Test::RandomRead | Test::RandomReadDirect | Test::RandomWriteDirect => self.random(test, place),
            Test::Create | Test::Stat | Test::Unlink => self.metadata(test, place),
            Test::Fsync => self.fsync(place),
            Test::Scratch(job) => self.scratch(job, place),
        }
    }

    fn write(&mut self, test: Test, place: &Place) -> Result<Sample, StorageError> {
        let length = self.options.size_bytes;
        place.remove("new");
        let sample = time(|| {
            let file = place.create("new", test.is_direct())?;
            let operations = self.fill(&file, length, place)?;
            if test.has_fsync() {
                file.sync_all().map_err(|source| place.error("fsync", source))?;
            }
            Ok((length, operations))
        });
        place.remove("new");
        sample
    }

    /// Writes so many bytes from a file's beginning, each block with its mark; returns the calls.
    fn fill(&mut self, file: &File, length: u64, place: &Place) -> Result<u64, StorageError> {
        let block = self.options.block_bytes as u64;
        for index in 0..length / block {
            self.buffer.mark(index);
            let bytes = &self.buffer.bytes()[..self.options.block_bytes];
            file.write_all_at(bytes, index * block).map_err(|source| place.error("write", source))?;
        }
        Ok(length / block)
    }

    /// Reads a file that [`Work::fill`] has written, checking each block's mark; computes after each block where asked to.
    fn scan(
        &mut self,
        file: &File,
        length: u64,
        place: &Place,
        computing: Option<Computing>,
    ) -> Result<u64, StorageError> {
        let block = self.options.block_bytes as u64;
        for index in 0..length / block {
            let bytes = &mut self.buffer.bytes()[..self.options.block_bytes];
            file.read_exact_at(bytes, index * block).map_err(|source| place.error("read", source))?;
            if !self.buffer.has_mark(index) {
                return Err(StorageError::Wrong { directory: place.directory.clone(), offset: index * block });
            }
            if let Some(computing) = computing {
                computing.run();
            }
        }
        Ok(length / block)
    }

    /// The file that is read, written once for all tests.
    ///
    /// # Errors
    ///
    /// Faults of the file system.
    fn data(&mut self, place: &Place) -> Result<(), StorageError> {
        let length = self.options.size_bytes;
        if fs::metadata(place.path(DATA)).is_ok_and(|found| found.len() == length) {
            return Ok(());
        }
        let file = place.create(DATA, false)?;
        self.fill(&file, length, place)?;
        file.sync_all().map_err(|source| place.error("fsync", source))
    }

    /// Puts the file that a test uses into the state that the test's name says: in the page cache, or not.
    ///
    /// # Errors
    ///
    /// Faults of the file system.
    pub fn prepare(&mut self, test: Test, place: &Place) -> Result<(), StorageError> {
        self.data(place)?;
        let file = place.open(DATA, OpenOptions::new().read(true), false)?;
        if test == Test::SequentialReadCached {
            return self.scan(&file, self.options.size_bytes, place, None).map(drop);
        }
        drop_from_cache(&file).map_err(|source| place.error("drop a file from the page cache", source))
    }

    fn read(&mut self, test: Test, place: &Place) -> Result<Sample, StorageError> {
        self.prepare(test, place)?;
        let file = place.open(DATA, OpenOptions::new().read(true), test.is_direct())?;
        let length = self.options.size_bytes;
        time(|| Ok((length, self.scan(&file, length, place, None)?)))
    }

    fn random(&mut self, test: Test, place: &Place) -> Result<Sample, StorageError> {
        self.prepare(test, place)?;
        let writes = test == Test::RandomWriteDirect;
        let file = place.open(DATA, OpenOptions::new().read(true).write(writes), test.is_direct())?;
        let pages = self.options.size_bytes / SMALL_BYTES as u64;
        let operations = self.options.operations;
        let mut state = 42;
        let sample = time(|| {
            for _ in 0..operations {
                // The remainder's bias is 2^-40 for a terabyte.
                let offset = splitmix(&mut state) % pages * SMALL_BYTES as u64;
                let bytes = &mut self.buffer.bytes()[..SMALL_BYTES];
                let done = if writes { file.write_all_at(bytes, offset) } else { file.read_exact_at(bytes, offset) };
                done.map_err(|source| place.error("transfer 4 KiB", source))?;
            }
            Ok((operations * SMALL_BYTES as u64, operations))
        });
        if writes {
            // The marks are gone.
            place.remove(DATA);
        }
        sample
    }

    fn metadata(&mut self, test: Test, place: &Place) -> Result<Sample, StorageError> {
        let directory = place.path("files");
        let count = self.options.operations;
        let paths: Vec<_> = (0..count).map(|index| directory.join(format!("{index:08}"))).collect();
        let create = || paths.iter().try_for_each(|path| File::create(path).map(drop));
        let unlink = || paths.iter().try_for_each(fs::remove_file);
        let stat = || paths.iter().try_for_each(|path| fs::metadata(path).map(drop));
        fs::create_dir_all(&directory).map_err(|source| place.error("make a directory", source))?;
        if test != Test::Create {
            create().map_err(|source| place.error("create files", source))?;
        }
        let sample = time(|| {
            let done = match test {
                Test::Create => create(),
                Test::Stat => stat(),
                _ => unlink(),
            };
            done.map(|()| (0, count)).map_err(|source| place.error("create, stat or unlink files", source))
        });
        fs::remove_dir_all(&directory).map_err(|source| place.error("remove a directory", source))?;
        sample
    }

    fn fsync(&mut self, place: &Place) -> Result<Sample, StorageError> {
        let file = place.create("log", false)?;
        let count = self.options.fsync_operations;
        let sample = time(|| {
            for index in 0..count {
                let bytes = &self.buffer.bytes()[..SMALL_BYTES];
                let done = file.write_all_at(bytes, index * SMALL_BYTES as u64).and_then(|()| file.sync_all());
                done.map_err(|source| place.error("append and fsync", source))?;
            }
            Ok((count * SMALL_BYTES as u64, count))
        });
        place.remove("log");
        sample
    }

    /// Scratch files written once and read `passes` times, with computing after every block, as the source's model has it.
    fn scratch(&mut self, job: ScratchJob, place: &Place) -> Result<Sample, StorageError> {
        let lengths = job.file_bytes(self.options.scratch_bytes, self.options.block_bytes as u64);
        let names: Vec<String> = (0..lengths.len()).map(|index| format!("scratch{index}")).collect();
        let files: Vec<(u64, &String)> = lengths.iter().copied().zip(&names).collect();
        let computing = self.computing;
        let sample = time(|| {
            let (mut bytes, mut operations) = (0, 0);
            for &(length, name) in &files {
                let file = place.create(name, false)?;
                operations += self.fill(&file, length, place)?;
                bytes += length;
            }
            for _ in 0..self.options.passes {
                for &(length, name) in &files {
                    let file = place.open(name, OpenOptions::new().read(true), false)?;
                    operations += self.scan(&file, length, place, Some(computing))?;
                    bytes += length;
                }
            }
            Ok((bytes, operations))
        });
        files.iter().for_each(|(_, name)| place.remove(name));
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_runs_and_leaves_nothing() {
        let here = tempfile::tempdir_in(".").unwrap();
        let options = Options {
            size_bytes: 1 << 20,
            scratch_bytes: 1 << 20,
            block_bytes: 1 << 16,
            passes: 3,
            compute_ms_per_mib: 0.1,
            operations: 20,
            fsync_operations: 3,
            ..Options::new(vec![here.path().to_owned()])
        };
        let place = Place::new(here.path(), None).unwrap();
        let mut work = Work::new(&options);
        for test in Test::ALL {
            let sample = match work.run(test, &place) {
                Err(error) if error.is_unsupported() => continue,
                done => done.unwrap(),
            };
            assert!(sample.elapsed_seconds > 0.0 && sample.operations > 0, "{test}: {sample:?}");
            let bytes = match test {
                Test::Create | Test::Stat | Test::Unlink => 0,
                Test::RandomRead | Test::RandomReadDirect | Test::RandomWriteDirect => 20 * 4096,
                Test::Fsync => 3 * 4096,
                Test::Scratch(job) => 4 * job.file_bytes(1 << 20, 1 << 16).iter().sum::<u64>(),
                _ => 1 << 20,
            };
            assert_eq!(sample.bytes, bytes, "{test}");
        }
        drop(place);
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
    }

    #[test]
    fn data_that_come_back_different_are_noticed() {
        let here = tempfile::tempdir().unwrap();
        let options =
            Options { size_bytes: 1 << 17, block_bytes: 1 << 16, ..Options::new(vec![here.path().to_owned()]) };
        let place = Place::new(here.path(), None).unwrap();
        let mut work = Work::new(&options);
        work.run(Test::SequentialReadCached, &place).unwrap();
        let file = place.open(DATA, OpenOptions::new().write(true), false).unwrap();
        file.write_all_at(&[9], 1 << 16).unwrap();
        let error = work.run(Test::SequentialReadCached, &place).unwrap_err();
        assert!(matches!(error, StorageError::Wrong { offset: 65_536, .. }), "{error}");
    }
}
