//! A file that lost or changed bytes since it was sealed is noticed at resume, named, and redone where that is asked for.

use std::os::unix::fs::FileExt;

use afflux_container::{ElementType, SeriesFile};
use afflux_series::Replay;
use afflux_storage::PosixStorage;

use super::{POLICIES, find, resume, sets};
use crate::common::{self, Workload, attempt, check, write};

/// "Resume from a file whose tail is cut off or whose block is damaged: noticed, named, not skipped as done."
#[test]
fn r8_a_damaged_block_is_named_and_redone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let whole = Workload { steps: 0..40, ..Workload::of(sets()) };
    // Steps 9 and 26 of a point: in a finished column, and in the last one, which is read back.
    for (step, column) in [(9, "column 1 (steps 8 to 15)"), (26, "column 3 (steps 24 to 27)")] {
        write(&file, 3, &resume(Replay::Skip, 0..28));
        let value = common::value([0, 30, 0, 0, step], ElementType::F64);
        let offset = find(&std::fs::read(&file).unwrap(), &value);
        let handle = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        handle.write_all_at(&[value[2] ^ 0x40], offset + 2).unwrap();
        for replay in [Replay::Skip, Replay::Compare] {
            for result in attempt(&file, 3, &resume(replay, 20..40)) {
                let error = result.unwrap_err();
                assert!(error.contains("1 sealed columns are damaged") && error.contains(column), "{error}");
            }
        }
        let late = step + 1;
        for result in attempt(&file, 2, &resume(Replay::Rewrite, late..40)) {
            let error = result.unwrap_err();
            assert!(error.contains(column) && error.contains("is damaged"), "{error}");
        }
        // Ended before the damage is redone: it must not look whole.
        let start = step / 8 * 8;
        write(&file, 4, &resume(Replay::Rewrite, start..start + 1));
        let read = SeriesFile::open(&file).unwrap();
        assert!(!read.verify(&mut |_| {}).is_whole(), "half redone");
        drop(read);
        write(&file, 4, &resume(Replay::Rewrite, start..40));
        check(&file, &whole);
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn r8_a_tail_that_is_cut_off_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    write(&file, 2, &resume(Replay::Skip, 0..28));
    let length = std::fs::metadata(&file).unwrap().len();
    for cut in [1, 4096, length / 2, length - 100] {
        let copy = directory.path().join(format!("cut-{cut}.nc"));
        std::fs::copy(&file, &copy).unwrap();
        std::fs::OpenOptions::new().write(true).open(&copy).unwrap().set_len(length - cut).unwrap();
        for replay in POLICIES {
            for result in attempt(&copy, 2, &resume(replay, 0..40)) {
                let error = result.unwrap_err();
                assert!(error.contains("damaged") || error.contains("truncated") || error.contains("not"), "{error}");
            }
        }
    }
}

/// The lost rows are zeros for `afflux repair`, which the checksums tell; a run that begins early enough gives them again.
#[test]
fn r8_a_tail_that_is_cut_off_is_given_its_length_back_and_redone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    write(&file, 2, &resume(Replay::Skip, 0..28));
    let length = std::fs::metadata(&file).unwrap().len();
    let mut redone = 0;
    for cut in (1..length / 2).step_by(usize::try_from(length / 24).unwrap()) {
        let copy = directory.path().join(format!("cut-{cut}.nc"));
        std::fs::copy(&file, &copy).unwrap();
        std::fs::OpenOptions::new().write(true).open(&copy).unwrap().set_len(length - cut).unwrap();
        let repaired = afflux_container::repair(&PosixStorage::new(), &copy);
        // Behind the last sealed row there are zeros anyway.
        if repaired.is_err() || std::fs::read(&copy).unwrap() == std::fs::read(&file).unwrap() {
            continue;
        }
        for replay in [Replay::Skip, Replay::Compare] {
            for result in attempt(&copy, 2, &resume(replay, 0..40)) {
                assert!(result.unwrap_err().contains("damaged"));
            }
        }
        // What was cut off can hold the first step too, and with it what the others follow from.
        let results = attempt(&copy, 3, &resume(Replay::Rewrite, 0..40));
        if results.iter().all(Result::is_ok) {
            check(&copy, &Workload { steps: 0..40, ..Workload::of(sets()) });
            redone += 1;
        }
    }
    assert!(redone > 3, "only {redone} were redone");
}
