//! Other boxes of cells for the ranks, in the middle of a run.
//!
//! The new layout follows from the old one by rule, so that every rank knows what it gives to whom and what it gets from whom
//! without asking. Materials, layers and halos are set up anew; the state moves, what stays with a rank by a copy, the rest in
//! one exchange. For a moment a rank holds both boxes. Results do not change by a bit: no value depends on the box it lies in.

use crate::comm::agree::agree;
use crate::error::SimulationError;
use crate::layout::{Block, Layout};
use crate::simulation::{Parts, Simulation};
use crate::state::Part;

/// What comes from another rank.
struct Incoming {
    source: usize,
    /// The cells.
    cells: Block,
    /// Their values: array by array, row by row.
    bytes: Vec<u8>,
}

impl Simulation<'_> {
    /// Collective: gives the ranks the boxes of turn `turn` of the borders (see [`Layout::swept`]), fields, layers, sources
    /// and probes with them. Whether cells have changed hands; then [`Self::probes`] has other points on some ranks, and rows
    /// must be made anew.
    ///
    /// # Errors
    /// On all ranks if any rank fails: memory for the new boxes. The simulation stays as it was then.
    pub fn move_borders(&mut self, turn: u64) -> Result<bool, SimulationError> {
        let comm = self.comm();
        let layout = Layout::new(self.grid().cells, comm.size()).swept(turn);
        if layout == *self.layout() {
            return Ok(false);
        }
        let prepared = self.prepare(&layout);
        let outcome = prepared.as_ref().map(|_| ()).map_err(|error| (0, error.to_string()));
        let (mut parts, mut incoming) = match (prepared, agree(comm, outcome, &mut [])?) {
            (Ok(prepared), Ok(())) => prepared,
            (Err(own), _) => return Err(own),
            (Ok(_), Err(failure)) => {
                return Err(SimulationError::OtherRank { rank: failure.rank, message: failure.message });
            }
        };
        self.bring_state(&layout, &mut parts, &mut incoming)?;
        self.take_on(layout, parts)?;
        Ok(true)
    }

    /// Takes the memory that the new box needs: its parts, and room for what comes from others.
    fn prepare(&self, layout: &Layout) -> Result<(Parts, Vec<Incoming>), SimulationError> {
        let comm = self.comm();
        let rank = comm.rank();
        let new = layout.block(rank);
        let parts = Parts::new(self.model(), self.grid(), layout, rank)?;
        let mut incoming = Vec::new();
        for source in (0..comm.size()).filter(|&source| source != rank) {
            let cells = new.intersection(&self.layout().block(source));
            if cells.cell_count() > 0 {
                let count = rows(&parts.state(&new), &cells).map(size_of_val).sum();
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(count).map_err(|error| SimulationError::Memory {
                    rank,
                    needed_bytes: count as u64,
                    limit: format!("which the system does not give ({error})"),
                })?;
                bytes.resize(count, 0);
                incoming.push(Incoming { source, cells, bytes });
            }
        }
        Ok((parts, incoming))
    }

    /// Collective: fills the parts of a new layout with the present state.
    fn bring_state(
        &self,
        layout: &Layout,
        parts: &mut Parts,
        incoming: &mut [Incoming],
    ) -> Result<(), SimulationError> {
        let comm = self.comm();
        let (rank, old) = (comm.rank(), *self.block());
        let new = layout.block(rank);
        let state = self.state_parts();
        let mut outgoing: Vec<(usize, Vec<&[u8]>)> = Vec::new();
        for other in (0..comm.size()).filter(|&other| other != rank) {
            let cells = old.intersection(&layout.block(other));
            if cells.cell_count() > 0 {
                outgoing.push((other, rows(&state, &cells).map(bytemuck::cast_slice).collect()));
            }
        }
        let sends: Vec<(usize, &[&[u8]])> = outgoing.iter().map(|(to, slices)| (*to, slices.as_slice())).collect();
        let mut receives: Vec<(usize, &mut [u8])> =
            incoming.iter_mut().map(|message| (message.source, message.bytes.as_mut_slice())).collect();
        comm.exchange(&sends, &mut receives)?;

        let kept = old.intersection(&new);
        let mut here = rows(&state, &kept);
        for_each_row(parts, &new, &kept, |row| row.copy_from_slice(here.next().expect("both boxes have these cells")));
        for message in incoming.iter() {
            let mut rest = message.bytes.as_slice();
            for_each_row(parts, &new, &message.cells, |row| {
                let (bytes, behind) = rest.split_at(size_of_val(row));
                bytemuck::cast_slice_mut(row).copy_from_slice(bytes);
                rest = behind;
            });
            assert!(rest.is_empty(), "a message holds the rows of its cells");
        }
        Ok(())
    }
}

/// The state of some cells: array by array, row by row.
fn rows<'a>(state: &[Part<'a>], cells: &Block) -> impl Iterator<Item = &'a [f64]> {
    state.iter().flat_map(|part| part.rows(cells))
}

/// Calls `fill` with the rows of some cells of the box `block`, in the order of [`rows`].
fn for_each_row(parts: &mut Parts, block: &Block, cells: &Block, mut fill: impl FnMut(&mut [f64])) {
    for part in parts.state_mut(block) {
        part.into_rows(cells).for_each(&mut fill);
    }
}
