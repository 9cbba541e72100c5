//! Damage ends in an error or a finding that names it: never in a panic, never in wrong values taken for right ones.

use crate::make::{WATERMARK, make, two_sets};
use afflux_container::{Fault, Finding, ReadError, SeriesFile, Verification};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One file is damaged at a time: HDF5 takes broken metadata ill, and then the test at fault is known.
static OPERATING: Mutex<()> = Mutex::new(());

/// A made file's bytes and a place to put damaged copies.
struct Patient {
    directory: tempfile::TempDir,
    whole: Vec<u8>,
    _operating: MutexGuard<'static, ()>,
}

impl Patient {
    fn new() -> Self {
        let operating = OPERATING.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("whole.nc");
        make(&path, &two_sets(), Some(WATERMARK)).expect("made");
        let whole = std::fs::read(&path).expect("read back");
        Self { directory, whole, _operating: operating }
    }

    fn put(&self, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join("damaged.nc");
        std::fs::write(&path, bytes).expect("written");
        age(&path);
        path
    }

    /// Changes the file through HDF5.
    fn changed(&self, change: impl FnOnce(&hdf5_metno::File) -> hdf5_metno::Result<()>) -> PathBuf {
        let path = self.put(&self.whole);
        // Without HDF5's lock: a process that another test starts holds it for a moment, having inherited the file.
        let options = hdf5_metno::File::with_options().with_fapl(|list| list.file_locking(false)).clone();
        let file = options.open_rw(&path).expect("opens");
        change(&file).expect("changed");
        drop(file);
        age(&path);
        path
    }
}

/// Writes one value of a dataset.
fn put<T: hdf5_metno::H5Type>(dataset: &hdf5_metno::Dataset, value: T, index: &[usize]) -> hdf5_metno::Result<()> {
    let place = ndarray::ArrayView2::from_shape((1, index.len()), index).expect("one place");
    dataset.write_slice(ndarray::aview1(&[value]), place)
}

/// Makes a file look untouched for long, so that the reader does not wait for a writer.
fn age(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).expect("opens");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    file.set_modified(long_ago).expect("times can be set");
}

/// Every so many bytes a trial; `AFFLUX_TEST_EVERY_BYTE=1` tries them all.
pub fn stride(bytes: usize, trials: usize) -> usize {
    if std::env::var_os("AFFLUX_TEST_EVERY_BYTE").is_some() { 1 } else { bytes / trials + 1 }
}

fn verify(path: &Path) -> Result<Verification, ReadError> {
    SeriesFile::open(path).map(|file| file.verify(&mut |_| {}))
}

fn faults(path: &Path) -> Vec<Finding> {
    verify(path).expect("opens").findings
}

/// Everything the file shows, or the first error.
fn contents(path: &Path) -> Result<Vec<String>, ReadError> {
    let file = SeriesFile::open(path)?;
    let mut shown = vec![format!("{:?}", file.state().watermark)];
    for (set, info) in file.sets().iter().enumerate() {
        let rows = 0..info.rows_sealed;
        shown.push(format!("{info:?} {:?}", file.points(set)?));
        shown.push(format!("{:?} {:?}", file.steps(set, rows.clone())?, file.times(set, rows.clone())?));
        for variable in 0..info.variables.len() {
            shown.push(format!("{:?}", file.block(set, variable, 0..info.points, rows.clone())?));
        }
    }
    Ok(shown)
}

#[test]
fn other_files_are_told_apart() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    let missing = SeriesFile::open(&path).expect_err("missing");
    assert!(matches!(missing, ReadError::Open { .. }), "{missing}");
    assert!(matches!(SeriesFile::open(directory.path()), Err(ReadError::Open { .. })));
    // What is no regular file may make whoever opens it wait for ever.
    let socket = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    for odd in [&socket, Path::new("/dev/null")] {
        assert!(matches!(SeriesFile::open(odd), Err(ReadError::Open { .. })), "{}", odd.display());
    }
    std::fs::write(&path, b"").expect("written");
    assert!(matches!(SeriesFile::open(&path), Err(ReadError::Damaged { .. })), "an empty file was cut off");
    for bytes in [&b"CDF\x01 and so on"[..], b"\x89HD", b"# Afflux\n1 2 3\n"] {
        std::fs::write(&path, bytes).expect("written");
        assert!(matches!(SeriesFile::open(&path), Err(ReadError::NotHdf5 { .. })), "{bytes:?}");
    }
    std::fs::write(&path, b"\x89HDF\r\n\x1a\nnothing more").expect("written");
    assert!(matches!(SeriesFile::open(&path), Err(ReadError::Damaged { .. })));
    hdf5_metno::File::create(&path).expect("created");
    assert!(matches!(SeriesFile::open(&path), Err(ReadError::NotAfflux { .. })));
}

#[test]
fn a_name_that_is_not_utf8_is_no_damage() {
    use std::os::unix::ffi::OsStrExt;
    let patient = Patient::new();
    let path = patient.directory.path().join(std::ffi::OsStr::from_bytes(b"run\xFF.nc"));
    std::fs::write(&path, &patient.whole).expect("written");
    let error = SeriesFile::open(&path).expect_err("refused");
    assert!(matches!(error, ReadError::Open { .. }) && error.to_string().contains("UTF-8"), "{error}");
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let patient = Patient::new();
    let path = patient.changed(|file| file.group("afflux")?.attr("format_version")?.write_scalar(&2_i32));
    let error = SeriesFile::open(&path).expect_err("refused");
    assert!(matches!(error, ReadError::Version { found: 2, supported: 1, .. }), "{error}");
}

#[test]
fn a_file_cut_at_any_length_is_an_error_or_a_finding() {
    let patient = Patient::new();
    let length = patient.whole.len();
    for cut in (0..length).step_by(stride(length, 100)) {
        let path = patient.put(&patient.whole[..cut]);
        match verify(&path) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(verification) => assert!(!verification.is_whole(), "cut at {cut} of {length} goes unnoticed"),
        }
    }
}

/// Bits are flipped all over the file. What is sealed is either shown as it was or reported; what no checksum covers (points,
/// texts, rows not sealed, space that nothing uses) may differ, but must not bring the reader down.
#[test]
fn a_flipped_bit_anywhere_never_panics() {
    let patient = Patient::new();
    let path = patient.put(&patient.whole);
    let whole = contents(&path).expect("whole");
    let mut reported = 0;
    let stride = stride(patient.whole.len(), 400);
    for (turn, at) in (0..patient.whole.len()).step_by(stride).enumerate() {
        let mut bytes = patient.whole.clone();
        bytes[at] ^= 1 << (turn % 8);
        let path = patient.put(&bytes);
        let noticed = verify(&path).map_or(true, |verification| !verification.is_whole());
        reported += usize::from(noticed);
        if let (false, Ok(shown)) = (noticed, contents(&path)) {
            let samples = |shown: &[String]| {
                shown.iter().filter(|text| text.starts_with(['F', 'I', '['])).cloned().collect::<Vec<_>>()
            };
            assert_eq!(samples(&shown), samples(&whole), "bit {} of byte {at}", turn % 8);
        }
    }
    assert!(reported > 20, "only {reported} flips were noticed: the test does not reach the data");
}

/// Long runs of bytes are overwritten, with zeros, ones and noise: HDF5's own structures above all.
#[test]
fn overwritten_stretches_never_panic() {
    let patient = Patient::new();
    for (turn, start) in (0..patient.whole.len()).step_by(1499).enumerate() {
        let mut bytes = patient.whole.clone();
        let end = bytes.len().min(start + 8 * (1 + turn % 40));
        for (offset, byte) in bytes[start..end].iter_mut().enumerate() {
            *byte = match turn % 3 {
                0 => 0,
                1 => 0xFF,
                _ => (offset * 167 + turn).to_le_bytes()[0],
            };
        }
        let path = patient.put(&bytes);
        drop(verify(&path));
        drop(contents(&path));
    }
}

#[test]
fn a_changed_sample_is_named_by_set_and_column() {
    let patient = Patient::new();
    for (set, name, index, column) in
        [("", "J", &[4, 2, 15][..], 1), ("", "count", &[0, 0], 0), ("ground", "tick", &[1, 0, 5], 1)]
    {
        let path = patient.changed(|file| {
            let group = if set.is_empty() { file.as_group()? } else { file.group(set)? };
            put(&group.dataset(name)?, -7.0_f64, index)
        });
        let found = faults(&path);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].set.as_deref(), found[0].column), (Some(set), Some(column)));
        assert!(matches!(found[0].fault, Fault::Checksum { .. }), "{found:?}");
    }
}

#[test]
fn a_changed_sample_that_is_not_sealed_is_nobodys_promise() {
    let patient = Patient::new();
    let path = patient.changed(|file| put(&file.dataset("pressure")?, -7.0_f64, &[2, 16]));
    assert_eq!(faults(&path), []);
}

#[test]
fn values_that_change_places_are_found() {
    let patient = Patient::new();
    let path = patient.changed(|file| {
        let dataset = file.dataset("pressure")?;
        let first = dataset.read_slice_2d::<f64, _>((0..1, 0..8))?;
        let second = dataset.read_slice_2d::<f64, _>((1..2, 0..8))?;
        dataset.write_slice(&second, (0..1, 0..8))?;
        dataset.write_slice(&first, (1..2, 0..8))
    });
    assert!(matches!(faults(&path)[..], [Finding { column: Some(0), fault: Fault::Checksum { .. }, .. }]));
}

#[test]
fn steps_that_repeat_jump_or_fall_are_named() {
    let patient = Patient::new();
    let with_step = |row: usize, step: i64| {
        let path = patient.changed(|file| put(&file.dataset("step")?, step, &[row]));
        let findings = faults(&path).into_iter().filter(|finding| finding.row.is_some());
        findings.map(|finding| (finding.row.unwrap_or_default(), finding.fault)).collect::<Vec<_>>()
    };
    assert_eq!(
        with_step(3, 8),
        [(3, Fault::StepDouble { step: 8 }), (4, Fault::StepGap { before: 8, step: 16, cadence_steps: 4 })]
    );
    assert_eq!(
        with_step(9, 2),
        [(9, Fault::StepOrder { before: 32, step: 2 }), (10, Fault::StepGap { before: 2, step: 40, cadence_steps: 4 })]
    );
    assert!(with_step(5, 500).contains(&(5, Fault::StepUnsealed { step: 500 })));
    assert!(with_step(5, -1).contains(&(5, Fault::StepUnsealed { step: -1 })));
}

#[test]
fn a_lost_tail_is_named() {
    let patient = Patient::new();
    let path = patient.changed(|file| put(&file.dataset("step")?, 70_i64, &[15]));
    let found = faults(&path);
    assert!(
        found
            .iter()
            .any(|finding| matches!(finding.fault, Fault::ChecksumMissing { rows_sealed: 7, rows_recorded: [0, 8] })),
        "{found:?}"
    );
    let path = patient.changed(|file| {
        file.dataset("step")?.resize(12)?;
        file.dataset("J")?.resize((5, 3, 9))
    });
    let found = faults(&path);
    assert!(found.iter().any(|finding| finding.fault == Fault::TailMissing { step_last: 44, watermark: WATERMARK }));
    let short = Fault::RowsMissing { dataset: "/J".into(), rows_sealed: 12, rows_found: 9 };
    assert!(found.iter().any(|finding| finding.fault == short), "{found:?}");
    let file = SeriesFile::open(&path).expect("opens");
    assert!(matches!(file.series(0, 1, 0, 0, 0..12), Err(ReadError::Damaged { .. })));
    assert!(file.series(0, 1, 0, 0, 0..9).is_ok());
}

#[test]
fn times_that_go_back_or_are_no_numbers_are_named() {
    let patient = Patient::new();
    for time in [f64::NAN, 0.0, f64::NEG_INFINITY] {
        let path = patient.changed(|file| put(&file.dataset("time")?, time, &[4]));
        let found = faults(&path);
        assert!(found.iter().any(|finding| matches!(finding.fault, Fault::TimeOrder { .. })), "{found:?}");
    }
}

#[test]
fn times_that_stand_still_are_no_damage() {
    let patient = Patient::new();
    let path = patient.changed(|file| {
        let time = file.dataset("time")?;
        let before: Vec<f64> = time.read_slice_1d::<f64, _>(3..4)?.to_vec();
        put(&time, before[0], &[4])
    });
    // The changed bytes are damage, as the checksum says; their order is not.
    assert!(matches!(faults(&path)[..], [Finding { column: Some(0), fault: Fault::Checksum { .. }, .. }]));
}

#[test]
fn a_broken_slot_of_the_seal_leaves_the_older_and_is_named() {
    let patient = Patient::new();
    for word in 0..8 {
        let path = patient.changed(|file| put(&file.dataset("afflux/seal")?, 77_u64, &[1, word]));
        let file = SeriesFile::open(&path).expect("opens by the older slot");
        assert_eq!((file.state().watermark, file.sets()[0].rows_sealed), (None, 0));
        assert_eq!(file.verify(&mut |_| {}).findings[0].fault, Fault::SealSlot { slot: 1 });
    }
    let path = patient.changed(|file| {
        let seal = file.dataset("afflux/seal")?;
        put(&seal, 7_u64, &[0, 0])?;
        put(&seal, 7_u64, &[1, 0])
    });
    let error = SeriesFile::open(&path).expect_err("no seal");
    assert!(error.is_damage() && error.to_string().contains("neither slot"), "{error}");
}

#[test]
fn claims_larger_than_the_file_are_refused_before_memory_is_taken() {
    let patient = Patient::new();
    let path = patient.changed(|file| {
        for name in ["step", "time"] {
            file.dataset(name)?.resize(1 << 40)?;
        }
        file.dataset("pressure")?.resize((5, 1 << 40))
    });
    match verify(&path) {
        Ok(verification) => assert!(!verification.is_whole()),
        Err(error) => assert!(error.is_damage(), "{error}"),
    }
}
