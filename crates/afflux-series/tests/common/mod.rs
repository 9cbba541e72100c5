//! A made-up simulation for the tests: every value follows from (set, point id, variable, component, step).
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::Path;
use std::sync::Arc;

use afflux_collective::Path as WritePath;
use afflux_comm::{Communicator, threads};
use afflux_container::{Block, ElementType, SeriesFile};
use afflux_series::{
    Existing, FlushError, OpenError, Point, ProbeSet, RebalanceError, SeriesWriter, SetId, Statistics, Values, Variable,
};
use afflux_storage::Storage;

/// Which rank has a point.
#[derive(Debug, Clone, Copy)]
pub enum Owners {
    Blocks,
    RoundRobin,
    Scattered,
    OnlyRank(usize),
}

impl Owners {
    pub fn of(self, index: u64, points: u64, ranks: usize) -> usize {
        let ranks_u64 = ranks as u64;
        let owner = match self {
            Self::Blocks => index * ranks_u64 / points,
            Self::RoundRobin => index % ranks_u64,
            Self::Scattered => hash(&[index]) % ranks_u64,
            Self::OnlyRank(rank) => (rank % ranks) as u64,
        };
        usize::try_from(owner).unwrap()
    }
}

/// One set.
#[derive(Debug, Clone)]
pub struct Shape {
    pub name: String,
    pub points: u64,
    pub variables: Vec<(&'static str, ElementType, Option<u32>)>,
    pub cadence: u64,
}

/// A whole run.
#[derive(Clone)]
pub struct Workload {
    pub sets: Vec<Shape>,
    pub steps: std::ops::Range<u64>,
    pub window_steps: u64,
    pub chunk_steps: u64,
    pub chunk_bytes: u64,
    pub owners: Owners,
    pub path: Option<WritePath>,
    pub checkpoints: Vec<u64>,
    /// Behind the rows of these steps all sets change owners.
    pub rebalances: Vec<(u64, Owners)>,
    pub existing: Existing,
    /// The solver counts so many steps less than the file.
    pub step_offset: u64,
    /// The writer is dropped, not closed: to the file the same as a kill of the process between two calls.
    pub is_killed: bool,
    pub storage: Option<Arc<dyn Storage>>,
    /// Added to every value: a solver that does not repeat itself.
    pub drift: u64,
    pub groups: usize,
}

impl Workload {
    pub fn one_set(points: u64) -> Self {
        let variables = vec![("Ex", ElementType::F64, None), ("J", ElementType::F32, Some(3))];
        Self::of(vec![Shape { name: String::new(), points, variables, cadence: 1 }])
    }

    pub fn of(sets: Vec<Shape>) -> Self {
        Self {
            sets,
            steps: 0..35,
            window_steps: 10,
            chunk_steps: 8,
            chunk_bytes: 2048,
            owners: Owners::Blocks,
            path: None,
            checkpoints: Vec::new(),
            rebalances: Vec::new(),
            existing: Existing::Refuse,
            step_offset: 0,
            is_killed: false,
            storage: None,
            drift: 0,
            groups: 1,
        }
    }
}

pub fn hash(words: &[u64]) -> u64 {
    let mut state = 0x243F_6A88_85A3_08D3_u64;
    for &word in words {
        state = (state ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        state ^= state >> 29;
        state = state.wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state ^= state >> 32;
    }
    state
}

/// The low bytes of the value at (set, point, variable, component, step); floats are made of them, never NaN.
pub fn value(words: [u64; 5], element: ElementType) -> [u8; 8] {
    let bits = hash(&words);
    let small = (bits >> 40) as u32;
    let mut bytes = [0; 8];
    match element {
        ElementType::F64 => bytes = (small as f64 / 7.0).to_le_bytes(),
        ElementType::I64 => bytes = bits.to_le_bytes(),
        ElementType::F32 => bytes[..4].copy_from_slice(&(small as f32 / 7.0).to_le_bytes()),
        ElementType::I32 => bytes[..4].copy_from_slice(&small.to_le_bytes()),
    }
    bytes
}

/// Ids are not their indices, and descend: file order is not registration order.
pub fn id_of(index: u64, points: u64) -> i64 {
    i64::try_from(3 * (points - index)).unwrap()
}

/// A rank's points, in registration order.
pub fn points(shape: &Shape, owners: Owners, comm: &dyn Communicator) -> Vec<Point> {
    (0..shape.points)
        .filter(|&index| owners.of(index, shape.points, comm.size()) == comm.rank())
        .map(|index| Point::new(id_of(index, shape.points), index as f64, 0.5, -1.0))
        .collect()
}

pub fn probe_set(shape: &Shape, owners: Owners, comm: &dyn Communicator) -> (ProbeSet, Vec<i64>) {
    let local = points(shape, owners, comm);
    let ids = local.iter().map(|point| point.id).collect();
    let mut set = ProbeSet::new(&shape.name).points(local).every(shape.cadence);
    for &(name, element, components) in &shape.variables {
        let variable = match element {
            ElementType::F32 => Variable::f32(name),
            ElementType::F64 => Variable::f64(name),
            ElementType::I32 => Variable::i32(name),
            ElementType::I64 => Variable::i64(name),
        };
        set = set.variable(match components {
            Some(count) => variable.components(count),
            None => variable,
        });
    }
    (set, ids)
}

/// Typed buffers of one row.
#[derive(Default)]
pub struct Row {
    f32s: Vec<Vec<f32>>,
    f64s: Vec<Vec<f64>>,
    i32s: Vec<Vec<i32>>,
    i64s: Vec<Vec<i64>>,
    order: Vec<(ElementType, usize)>,
}

impl Row {
    pub fn of(set: usize, shape: &Shape, ids: &[i64], step: u64) -> Self {
        let mut row = Self::default();
        for (variable, &(_, element, components)) in shape.variables.iter().enumerate() {
            let bytes: Vec<[u8; 8]> = ids
                .iter()
                .flat_map(|&id| (0..u64::from(components.unwrap_or(1))).map(move |component| (id, component)))
                .map(|(id, component)| {
                    value([set as u64, id.cast_unsigned(), variable as u64, component, step], element)
                })
                .collect();
            let four = |bytes: &[u8; 8]| [bytes[0], bytes[1], bytes[2], bytes[3]];
            let index = match element {
                ElementType::F32 => {
                    row.f32s.push(bytes.iter().map(|b| f32::from_le_bytes(four(b))).collect());
                    row.f32s.len() - 1
                }
                ElementType::F64 => {
                    row.f64s.push(bytes.iter().map(|b| f64::from_le_bytes(*b)).collect());
                    row.f64s.len() - 1
                }
                ElementType::I32 => {
                    row.i32s.push(bytes.iter().map(|b| i32::from_le_bytes(four(b))).collect());
                    row.i32s.len() - 1
                }
                ElementType::I64 => {
                    row.i64s.push(bytes.iter().map(|b| i64::from_le_bytes(*b)).collect());
                    row.i64s.len() - 1
                }
            };
            row.order.push((element, index));
        }
        row
    }

    pub fn values(&self) -> Vec<Values<'_>> {
        self.order
            .iter()
            .map(|&(element, index)| match element {
                ElementType::F32 => Values::from(&self.f32s[index]),
                ElementType::F64 => Values::from(&self.f64s[index]),
                ElementType::I32 => Values::from(&self.i32s[index]),
                ElementType::I64 => Values::from(&self.i64s[index]),
            })
            .collect()
    }
}

/// An error of either verb.
#[derive(Debug)]
pub enum RunError {
    Open(OpenError),
    Append(afflux_series::AppendError),
    Flush(FlushError),
    Rebalance(RebalanceError),
}

pub fn open(
    path: &Path,
    workload: &Workload,
    comm: &dyn Communicator,
) -> Result<(SeriesWriter, Vec<Vec<i64>>), OpenError> {
    let mut builder = SeriesWriter::at(path)
        .window_steps(workload.window_steps)
        .chunk_steps(workload.chunk_steps)
        .chunk_bytes(workload.chunk_bytes)
        .existing(workload.existing)
        .step_offset(workload.step_offset)
        .groups(workload.groups);
    if let Some(storage) = &workload.storage {
        builder = builder.storage(Arc::clone(storage));
    }
    if let Some(path) = workload.path {
        builder = builder.write_path(path);
    }
    let mut ids = Vec::new();
    for shape in &workload.sets {
        let (set, local) = probe_set(shape, workload.owners, comm);
        builder = builder.set(set);
        ids.push(local);
    }
    Ok((builder.open(comm)?, ids))
}

pub fn run_rank(path: &Path, workload: &Workload, comm: &dyn Communicator) -> Result<Statistics, RunError> {
    let (mut run, mut ids) = open(path, workload, comm).map_err(RunError::Open)?;
    for step in workload.steps.clone() {
        for (set, shape) in workload.sets.iter().enumerate() {
            if run.is_due(SetId(set), step) {
                let in_file = step + workload.step_offset;
                let row = Row::of(set, shape, &ids[set], in_file + (workload.drift << 32));
                run.append(SetId(set), step, time(in_file), &row.values()).map_err(RunError::Append)?;
            }
        }
        for &(_, owners) in workload.rebalances.iter().filter(|&&(at, _)| at == step) {
            rebalance(&mut run, workload, owners, &mut ids, comm).map_err(RunError::Rebalance)?;
        }
        if workload.checkpoints.contains(&step) {
            run.checkpoint().map_err(RunError::Flush)?;
        }
    }
    if workload.is_killed {
        // On all ranks at once: one that left earlier would take the flushes of the others with it.
        comm.barrier().expect("every rank comes here");
        return Ok(Statistics::default());
    }
    run.close().map_err(RunError::Flush)
}

/// The time of a step: no step of the file, and not a multiple of anything.
pub fn time(step: u64) -> f64 {
    (step as f64 + 0.3) * 0.1
}

/// Gives the points of all sets other owners.
pub fn rebalance(
    run: &mut SeriesWriter,
    workload: &Workload,
    owners: Owners,
    ids: &mut [Vec<i64>],
    comm: &dyn Communicator,
) -> Result<(), RebalanceError> {
    for (set, shape) in workload.sets.iter().enumerate() {
        let points = points(shape, owners, comm);
        ids[set] = points.iter().map(|point| point.id).collect();
        run.rebalance(SetId(set), points)?;
    }
    Ok(())
}

/// What `h5diff` finds different outside the bookkeeping: nothing, where two files hold the same. (It says of references and of
/// empty scales that it cannot compare them, which is no difference.)
pub fn differences(left: &Path, right: &Path) -> String {
    let output = std::process::Command::new("h5diff")
        .args(["--exclude-path", "/afflux"])
        .args([left, right])
        .output()
        .expect("h5diff of hdf5-tools is installed");
    if output.status.success() {
        String::new()
    } else {
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

/// Writes the workload on thread ranks; panics where a rank fails.
pub fn write(path: &Path, ranks: usize, workload: &Workload) -> Statistics {
    let results = threads::run(ranks, |comm| run_rank(path, workload, &comm));
    results.into_iter().map(Result::unwrap).next_back().unwrap()
}

/// Writes the workload on thread ranks and returns what each rank says.
pub fn attempt(path: &Path, ranks: usize, workload: &Workload) -> Vec<Result<Statistics, String>> {
    let results = threads::run(ranks, |comm| run_rank(path, workload, &comm));
    let text = |error| match error {
        RunError::Open(error) => error.to_string(),
        RunError::Append(error) => error.to_string(),
        RunError::Flush(error) => error.to_string(),
        RunError::Rebalance(error) => error.to_string(),
    };
    results.into_iter().map(|result| result.map_err(text)).collect()
}

/// Every value of the file against its definition, and the file's own checksums.
pub fn check(path: &Path, workload: &Workload) {
    let file = SeriesFile::open(path).unwrap();
    let verification = file.verify(&mut |_| {});
    assert!(verification.is_whole(), "{verification:?}");
    assert_eq!(file.sets().len(), workload.sets.len());
    for (set, shape) in workload.sets.iter().enumerate() {
        let due: Vec<u64> = workload.steps.clone().filter(|step| step.is_multiple_of(shape.cadence)).collect();
        let info = &file.sets()[set];
        assert_eq!(
            (info.name.as_str(), info.points, info.rows_sealed),
            (shape.name.as_str(), shape.points, due.len() as u64)
        );
        let steps: Vec<i64> = due.iter().map(|step| step.cast_signed()).collect();
        assert_eq!(file.steps(set, 0..info.rows_sealed).unwrap(), steps);
        let times: Vec<f64> = due.iter().map(|&step| time(step)).collect();
        assert_eq!(file.times(set, 0..info.rows_sealed).unwrap(), times);
        let mut ids: Vec<i64> = (0..shape.points).map(|index| id_of(index, shape.points)).collect();
        ids.sort_unstable();
        assert_eq!(file.points(set).unwrap().ids, ids);
        for (variable, &(name, element, components)) in shape.variables.iter().enumerate() {
            let block = file.block(set, variable, 0..shape.points, 0..info.rows_sealed).unwrap();
            let mut bytes = Vec::new();
            Block::bytes_into(&block, 0..block.len(), &mut bytes);
            let mut found = bytes.chunks_exact(element.bytes());
            for &id in &ids {
                for component in 0..u64::from(components.unwrap_or(1)) {
                    for &step in &due {
                        let step = step + (workload.drift << 32);
                        let expected =
                            value([set as u64, id.cast_unsigned(), variable as u64, component, step], element);
                        assert_eq!(found.next().unwrap(), &expected[..element.bytes()], "{name} of {id} at {step}");
                    }
                }
            }
        }
    }
}
