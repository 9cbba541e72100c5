//! One rank's part of a running simulation.
//!
//! State between calls: E at the whole step n, H at n - 1/2, halos of both filled. Step 0 is the empty domain.

use std::collections::TryReserveError;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use crate::coefficients::Coefficients;
use crate::comm::agree::agree;
use crate::comm::{Communicator, Reduce};
use crate::cpml::Cpml;
use crate::energy::add_energy;
use crate::error::SimulationError;
use crate::exact_sum::ExactSum;
use crate::fields::{Fields, Lattice};
use crate::grid::Grid;
use crate::halo::Halo;
use crate::layout::{Block, Layout};
use crate::model::{Boundary, Model, ProbeSetModel};
use crate::probes::{Placement, Row, SamplePlan, name_some, place};
use crate::source::LocalSource;
use crate::state::{self, Part, PartMut};

/// Arrays as large as the box while a rank is set up: E, H, Ca, Cb with three components each, and two of materials.
const ARRAY_COUNT: u64 = 14;
const GIB: f64 = 1_073_741_824.0;

/// A probe set as this rank sees it.
#[derive(Debug)]
struct LocalSet {
    placement: Placement,
    plan: SamplePlan,
}

/// What a rank holds besides its communicator.
#[derive(Debug)]
pub(crate) struct Parts {
    fields: Fields,
    coefficients: Coefficients,
    cpml: Cpml,
    halo: Halo,
    sources: Vec<LocalSource>,
    sets: Vec<LocalSet>,
}

/// A simulation on the ranks of a communicator.
pub struct Simulation<'a> {
    comm: &'a dyn Communicator,
    model: &'a Model,
    grid: Grid,
    /// Who has which cells now.
    layout: Layout,
    block: Block,
    parts: Parts,
    step_index: u64,
}

impl fmt::Debug for Simulation<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Simulation")
            .field("rank", &self.comm.rank())
            .field("layout", &self.layout)
            .field("block", &self.block)
            .field("step_index", &self.step_index)
            .finish_non_exhaustive()
    }
}

impl<'a> Simulation<'a> {
    /// Collective: sets the model up at step 0, with this rank's share of the cells.
    ///
    /// # Errors
    /// On all ranks if any rank fails: a model that does not pass [`Model::check`], models that differ between ranks, points
    /// outside the domain, memory.
    pub fn new(model: &'a Model, comm: &'a dyn Communicator) -> Result<Self, SimulationError> {
        let built = model.check().map_err(SimulationError::from).and_then(|()| Self::build(model, comm));
        let mut hasher = DefaultHasher::new();
        format!("{model:?}").hash(&mut hasher);
        let hash = hasher.finish();
        let mut elements = [Reduce::min(hash), Reduce::max(hash)];
        let outcome = built.as_ref().map(|_| ()).map_err(|error| (0, error.to_string()));
        let verdict = agree(comm, outcome, &mut elements)?;
        if elements[0].value != elements[1].value {
            return Err(SimulationError::ModelsDiffer);
        }
        match (built, verdict) {
            (Ok(simulation), Ok(())) => Ok(simulation),
            (Err(own), _) => Err(own),
            (Ok(_), Err(failure)) => Err(SimulationError::OtherRank { rank: failure.rank, message: failure.message }),
        }
    }

    fn build(model: &'a Model, comm: &'a dyn Communicator) -> Result<Self, SimulationError> {
        let grid = model.grid();
        let layout = Layout::new(grid.cells, comm.size());
        let block = layout.block(comm.rank());
        let parts = Parts::new(model, &grid, &layout, comm.rank())?;
        Ok(Self { comm, model, grid, layout, block, parts, step_index: 0 })
    }

    /// Collective: goes on from `step` with the state that was put into the parts.
    pub(crate) fn begin_at(&mut self, step: u64) -> Result<(), SimulationError> {
        self.step_index = step;
        self.fill_halos()
    }

    /// Collective: takes on another layout with the state that was put into its parts.
    pub(crate) fn take_on(&mut self, layout: Layout, parts: Parts) -> Result<(), SimulationError> {
        self.block = layout.block(self.comm.rank());
        self.layout = layout;
        self.parts = parts;
        self.fill_halos()
    }

    /// Collective: the planes beside the boxes, from their owners.
    fn fill_halos(&mut self) -> Result<(), SimulationError> {
        let Parts { fields, halo, .. } = &mut self.parts;
        halo.exchange_electric(self.comm, &fields.lattice, &mut fields.electric)?;
        halo.exchange_magnetic(self.comm, &fields.lattice, &mut fields.magnetic)?;
        Ok(())
    }

    /// This rank's parts of the state.
    pub(crate) fn state_parts(&self) -> Vec<Part<'_>> {
        self.parts.state(&self.block)
    }

    /// The same, to be filled.
    pub(crate) fn state_parts_mut(&mut self) -> Vec<PartMut<'_>> {
        self.parts.state_mut(&self.block)
    }

    /// Collective: one time step.
    pub fn step(&mut self) -> Result<(), SimulationError> {
        let Parts { fields, coefficients, cpml, halo, sources, .. } = &mut self.parts;
        fields.update_magnetic(coefficients);
        cpml.update_magnetic(fields, coefficients);
        halo.exchange_magnetic(self.comm, &fields.lattice, &mut fields.magnetic)?;
        fields.update_electric(coefficients);
        cpml.update_electric(fields, coefficients);
        let middle_s = (self.step_index as f64 + 0.5) * self.grid.time_step_s;
        for source in sources {
            source.drive(fields, middle_s);
        }
        halo.exchange_electric(self.comm, &fields.lattice, &mut fields.electric)?;
        self.step_index += 1;
        Ok(())
    }

    /// Steps done.
    #[must_use]
    pub fn step_index(&self) -> u64 {
        self.step_index
    }

    /// The time of E, seconds; H is half a time step earlier.
    #[must_use]
    pub fn time(&self) -> f64 {
        self.step_index as f64 * self.grid.time_step_s
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// The ranks.
    #[must_use]
    pub fn comm(&self) -> &'a dyn Communicator {
        self.comm
    }

    /// Grid and time step.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// How the cells are shared out.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The cells of this rank.
    #[must_use]
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The points of a set, by its index in the model: those of this rank, and those outside the domain.
    ///
    /// # Panics
    /// If there is no such set.
    #[must_use]
    pub fn probes(&self, set: usize) -> &Placement {
        &self.parts.sets[set].placement
    }

    /// A row of zeros of the right shape for [`Self::sample`].
    ///
    /// # Panics
    /// If there is no such set.
    #[must_use]
    pub fn empty_row(&self, set: usize) -> Row {
        self.parts.sets[set].plan.empty_row()
    }

    /// Local: copies the present fields at this rank's points of a set into `row`, which [`Self::empty_row`] made. Allocates
    /// nothing. The electric fields are those of [`Self::time`], the magnetic ones half a time step older.
    ///
    /// # Panics
    /// If there is no such set, or the row was made for another.
    pub fn sample(&self, set: usize, row: &mut Row) {
        self.parts.sets[set].plan.fill(&self.parts.fields.electric, &self.parts.fields.magnetic, row);
    }

    /// Collective: the energy of the fields outside the absorbing layers, joules; the same bits for any number of ranks.
    /// Constant to rounding in a closed domain without loss once the sources are over.
    pub fn energy(&self) -> Result<f64, SimulationError> {
        let mut sum = ExactSum::new();
        let volume: f64 = self.grid.cell_size_m.iter().product();
        add_energy(&mut sum, &self.parts.fields, &self.parts.coefficients, &self.inner_cells(), volume);
        let mut elements: Vec<Reduce> = sum.into_words().into_iter().map(Reduce::sum).collect();
        self.comm.all_reduce(&mut elements)?;
        let words: Vec<u64> = elements.iter().map(|element| element.value).collect();
        Ok(ExactSum::from_words(&words).value())
    }

    /// Warnings about the model, the same on all ranks: points that were left out.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let outside = |(set, model): (&LocalSet, &ProbeSetModel)| {
            let points = &set.placement.outside;
            (!points.is_empty()).then(|| {
                let names = name_some(points);
                format!("probe set `{}`: {} points outside the domain are left out: {names}", model.name, points.len())
            })
        };
        self.parts.sets.iter().zip(&self.model.probes).filter_map(outside).collect()
    }

    /// This rank's cells that are in no absorbing layer, in local indices.
    fn inner_cells(&self) -> [Range<usize>; 3] {
        let faces = self.model.boundaries.faces();
        let thickness = usize::try_from(self.model.cpml.thickness).unwrap_or(usize::MAX);
        std::array::from_fn(|axis| {
            let [lower, upper] = faces[axis].map(|face| if face == Boundary::Cpml { thickness } else { 0 });
            let (start, len) = (self.block.start[axis], self.block.len[axis]);
            let first = lower.saturating_sub(start).min(len);
            let end = (self.grid.cells[axis] - upper).saturating_sub(start).min(len);
            first..end.max(first)
        })
    }
}

impl Parts {
    /// Sets up the box of a rank, fields zero.
    pub fn new(model: &Model, grid: &Grid, layout: &Layout, rank: usize) -> Result<Self, SimulationError> {
        let block = layout.block(rank);
        let needed_bytes = field_bytes(model, &block);
        let refuse = |limit: String| SimulationError::Memory { rank, needed_bytes, limit };
        if needed_bytes as f64 > model.limits.memory_gib * GIB {
            return Err(refuse(format!("more than `limits.memory_gib` = {} allows", model.limits.memory_gib)));
        }
        let sets = model.probes.iter().map(|set| LocalSet::new(set, grid, &block)).collect::<Result<_, _>>()?;
        Self::allocate(model, grid, layout, rank, sets)
            .map_err(|error| refuse(format!("which the system does not give ({error})")))
    }

    fn allocate(
        model: &Model,
        grid: &Grid,
        layout: &Layout,
        rank: usize,
        sets: Vec<LocalSet>,
    ) -> Result<Self, TryReserveError> {
        let block = layout.block(rank);
        let fields = Fields::new(block.len)?;
        let coefficients = Coefficients::new(grid, &block, &model.boxes)?;
        let source = |source| LocalSource::new(source, grid, &block, &fields, &coefficients);
        let sources = model.sources.iter().filter_map(source).collect();
        let cpml = Cpml::new(model, grid, &block)?;
        let halo = Halo::new(layout, rank)?;
        Ok(Self { fields, coefficients, cpml, halo, sources, sets })
    }

    /// The state in a box that these parts were set up for.
    pub fn state(&self, block: &Block) -> Vec<Part<'_>> {
        state::parts(block, &self.fields, &self.cpml)
    }

    /// The same, to be filled.
    pub fn state_mut(&mut self, block: &Block) -> Vec<PartMut<'_>> {
        state::parts_mut(block, &mut self.fields, &mut self.cpml)
    }
}

impl LocalSet {
    fn new(set: &ProbeSetModel, grid: &Grid, block: &Block) -> Result<Self, SimulationError> {
        let placement = place(set, grid, block)?;
        let lattice = Lattice::new(block.len);
        let local = |cell: &[usize; 3]| std::array::from_fn(|axis| cell[axis] - block.start[axis]);
        let plan = SamplePlan {
            fields: set.fields.clone(),
            sample_type: set.sample_type,
            electric_indices: placement.cells.iter().map(|cell| lattice.electric(local(cell))).collect(),
            magnetic_indices: placement.cells.iter().map(|cell| lattice.magnetic(local(cell))).collect(),
        };
        Ok(Self { placement, plan })
    }
}

/// Memory for the fields, coefficients and layers of a box, bytes; saturates.
fn field_bytes(model: &Model, block: &Block) -> u64 {
    let len = block.len.map(|n| n as u64);
    let product = |sides: [u64; 3]| sides.iter().fold(1_u64, |product, &n| product.saturating_mul(n));
    let mut values = product(len.map(|n| n + 1)).saturating_mul(ARRAY_COUNT);
    for (axis, faces) in model.boundaries.faces().into_iter().enumerate() {
        for _ in faces.iter().filter(|&&face| face == Boundary::Cpml) {
            let mut sides = len;
            sides[axis] = sides[axis].min(model.cpml.thickness);
            values = values.saturating_add(product(sides).saturating_mul(4));
        }
    }
    values.saturating_mul(size_of::<f64>() as u64)
}
