//! Create, grow, write, seal, close; then read with plain HDF5 and with our reader.

use crate::support::{CHUNK_STEPS, Engine, check_plainly, set, two_sets, variable};
use afflux_container::{ContainerWriter, CreateError, ElementType, Existing, SeriesFile, SpecError};
use afflux_storage::{CountingStorage, PosixStorage, Storage};
use std::path::Path;
use std::sync::Arc;

fn create(path: &Path) -> ContainerWriter {
    ContainerWriter::create(Arc::new(PosixStorage), path, &two_sets(), Existing::Refuse).unwrap()
}

fn write_file(path: &Path, flushes: &[[u64; 2]]) {
    let mut writer = create(path);
    let mut engine = Engine::new(two_sets());
    for rows in flushes {
        engine.flush(&mut writer, rows);
    }
    let report = writer.close().unwrap();
    assert_eq!(report.file_bytes, std::fs::metadata(path).unwrap().len());
}

#[test]
fn sealed_rows_read_back_with_plain_hdf5_and_with_our_reader() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    write_file(&path, &[[3, 1], [4, 4], [9, 5], [30, 31]]);
    let shown = check_plainly(&path, &two_sets(), &[30, 31]).unwrap();
    assert_eq!(shown, [vec![30; 5], vec![31; 4]]);
    let file = SeriesFile::open(&path).unwrap();
    assert_eq!(file.state().watermark, Some(30));
    assert!(file.state().closed);
    drop(file);
    assert!(!path.with_extension("nc.afflux-new").exists());
}

#[test]
fn many_columns_use_every_kind_of_index_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let rows: Vec<[u64; 2]> = (1..=130).map(|column| [column * CHUNK_STEPS, column * CHUNK_STEPS - 1]).collect();
    write_file(&path, &rows);
    let shown = check_plainly(&path, &two_sets(), &[520, 519]).unwrap();
    assert_eq!(shown, [vec![520; 5], vec![519; 4]]);
}

#[test]
fn the_same_calls_give_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<Vec<u8>> = ["a.nc", "b.nc"]
        .iter()
        .map(|name| {
            let path = directory.path().join(name);
            write_file(&path, &[[3, 1], [9, 5]]);
            std::fs::read(&path).unwrap()
        })
        .collect();
    assert!(bytes[0] == bytes[1]);
}

#[test]
fn a_dropped_writer_leaves_the_last_seal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let mut writer = create(&path);
    let mut engine = Engine::new(two_sets());
    engine.flush(&mut writer, &[6, 6]);
    writer.grow(&[(0, 5), (1, 7)]).unwrap();
    drop(writer);
    let shown = check_plainly(&path, &two_sets(), &[6, 6]).unwrap();
    assert_eq!(shown, [vec![6; 5], vec![6; 4]]);
    assert!(!SeriesFile::open(&path).unwrap().state().closed);
}

#[test]
fn closing_drops_columns_that_were_grown_and_not_sealed() {
    let directory = tempfile::tempdir().unwrap();
    let (grown, plain) = (directory.path().join("grown.nc"), directory.path().join("plain.nc"));
    for (path, extra) in [(&grown, true), (&plain, false)] {
        let mut writer = create(path);
        let mut engine = Engine::new(two_sets());
        engine.flush(&mut writer, &[6, 6]);
        if extra {
            writer.grow(&[(0, 5), (1, 7)]).unwrap();
        }
        writer.close().unwrap();
        let shown = check_plainly(path, &two_sets(), &[6, 6]).unwrap();
        assert_eq!(shown, [vec![6; 5], vec![6; 4]]);
    }
    let bytes = |path| std::fs::metadata(path).unwrap().len();
    assert!(bytes(&grown) <= bytes(&plain) + 4096);
}

#[test]
fn an_existing_file_is_refused_or_replaced_as_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    std::fs::write(&path, "precious").unwrap();
    let storage = Arc::new(PosixStorage);
    let refused = ContainerWriter::create(storage.clone(), &path, &two_sets(), Existing::Refuse);
    assert!(matches!(refused, Err(CreateError::Exists { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let replaced = ContainerWriter::create(storage, &path, &two_sets(), Existing::Replace).unwrap();
    replaced.close().unwrap();
    check_plainly(&path, &two_sets(), &[0, 0]).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn only_a_regular_file_is_replaced() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let name = |name| directory.path().join(name);
    let _socket = std::os::unix::net::UnixListener::bind(name("socket")).unwrap();
    std::fs::create_dir(name("directory")).unwrap();
    symlink(name("socket"), name("link to the socket")).unwrap();
    symlink(name("nothing"), name("link to nothing")).unwrap();
    std::fs::write(name("file"), "old").unwrap();
    symlink(name("file"), name("link to the file")).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(CountingStorage::new(Arc::new(PosixStorage)));
    let replace = |path: &Path| ContainerWriter::create(storage.clone(), path, &two_sets(), Existing::Replace);
    for taken in ["socket", "directory", "link to the socket", "link to nothing"] {
        let before = std::fs::symlink_metadata(name(taken)).unwrap().file_type();
        let refused = replace(&name(taken));
        assert!(matches!(refused, Err(CreateError::NotAFile { .. })), "{taken}");
        assert_eq!(std::fs::symlink_metadata(name(taken)).unwrap().file_type(), before);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 6, "nothing was made beside them");
    replace(&name("link to the file")).unwrap().close().unwrap();
    replace(&name("file")).unwrap().close().unwrap();
}

#[test]
fn a_file_that_is_being_written_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let mut writer = create(&path);
    let second = ContainerWriter::create(Arc::new(PosixStorage), &path, &two_sets(), Existing::Replace);
    assert!(matches!(second, Err(CreateError::Busy { .. })));
    Engine::new(two_sets()).flush(&mut writer, &[6, 6]);
    writer.close().unwrap();
    ContainerWriter::create(Arc::new(PosixStorage), &path, &two_sets(), Existing::Replace).unwrap().close().unwrap();
}

#[test]
fn a_left_over_temporary_file_does_not_stand_in_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    std::fs::write(directory.path().join("run.nc.afflux-new"), "half a file").unwrap();
    create(&path).close().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn object_count_does_not_depend_on_the_points() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    for count in [4, 40_000] {
        let path = directory.path().join(format!("{count}.nc"));
        let mut spec = two_sets();
        spec.chunk_bytes = 1 << 20;
        spec.sets[0] = set("", count, vec![variable("Ez", ElementType::F64, Some(3))]);
        let writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &spec, Existing::Refuse).unwrap();
        writer.close().unwrap();
        let file = hdf5_metno::File::open(&path).unwrap();
        bytes.push(file.member_names().unwrap().len());
        assert_eq!(file.dataset("point").unwrap().size(), usize::try_from(count).unwrap());
    }
    assert_eq!(bytes[0], bytes[1]);
}

#[test]
fn names_that_cannot_be_are_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let refuse = |change: &dyn Fn(&mut afflux_container::FileSpec)| {
        let mut spec = two_sets();
        change(&mut spec);
        let path = directory.path().join("bad.nc");
        let error = ContainerWriter::create(Arc::new(PosixStorage), &path, &spec, Existing::Refuse).err();
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
        match error {
            Some(CreateError::Spec(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    for name in ["", "a/b", "trailing ", "new\nline", "-first"] {
        let error = refuse(&|spec| spec.sets[0].variables[0].name = name.into());
        assert!(matches!(error, SpecError::BadName { .. }), "{error}");
    }
    for name in ["time", "step", "x", "point_name", "afflux", "component_3"] {
        let error = refuse(&|spec| spec.sets[0].variables[0].name = name.into());
        assert!(matches!(error, SpecError::ReservedName { .. }), "{error}");
    }
    let changes: [&dyn Fn(&mut afflux_container::FileSpec); 4] = [
        &|spec| spec.sets[0].variables[1].name = "Ez".into(),
        &|spec| spec.sets[1].name = String::new(),
        &|spec| spec.sets[1].name = "Ez".into(),
        &|spec| spec.sets[0].points.names[1] = "P0000".into(),
    ];
    for change in changes {
        let error = refuse(change);
        assert!(matches!(error, SpecError::DuplicateName { .. }), "{error}");
    }
    assert!(matches!(refuse(&|spec| spec.sets[1].name = "afflux".into()), SpecError::ReservedName { .. }));
    assert!(matches!(refuse(&|spec| spec.sets.clear()), SpecError::BadShape { .. }));
    assert!(matches!(refuse(&|spec| spec.sets[0].points.ids[1] = 0), SpecError::BadShape { .. }));
}

/// CASES M7.
#[test]
fn many_small_sets_share_the_writes_of_a_seal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let mut spec = two_sets();
    spec.sets =
        (0..345).map(|number| set(&format!("s{number}"), 1, vec![variable("v", ElementType::F64, None)])).collect();
    let mut writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &spec, Existing::Refuse).unwrap();
    let mut engine = Engine::new(spec.clone());
    engine.flush(&mut writer, &[2; 345]);
    let before = writer.counters().total().writes;
    engine.flush(&mut writer, &[3; 345]);
    let writes = writer.counters().total().writes - before;
    assert!(writes < 20, "{writes} writes for a seal that adds a row to each of 345 sets");
    writer.close().unwrap();
    assert_eq!(check_plainly(&path, &spec, &[3; 345]).unwrap(), vec![vec![3; 3]; 345]);
}

#[test]
fn a_text_too_long_for_a_header_is_no_hindrance() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let mut spec = two_sets();
    let input = "all that the run was told. ".repeat(3000);
    spec.attributes.push(("input".into(), input.clone()));
    let mut writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &spec, Existing::Refuse).unwrap();
    let mut engine = Engine::new(spec);
    engine.flush(&mut writer, &[9, 5]);
    writer.close().unwrap();
    check_plainly(&path, &two_sets(), &[9, 5]).unwrap();
    assert!(SeriesFile::open(&path).is_ok());
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.windows(input.len()).any(|window| window == input.as_bytes()));
}
