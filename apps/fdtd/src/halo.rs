//! The planes that ranks exchange: twice a step, with at most six neighbours, from buffers made once.
//!
//! Only the two components tangential to a face cross it. After E was updated each rank sends its lowest planes down, which
//! become the upper halo there; after H its highest planes up.

use std::collections::TryReserveError;

use crate::comm::{CommError, Communicator};
use crate::fields::Lattice;
use crate::layout::{Layout, Side};

/// A neighbour and the bytes that go to it or come from it.
#[derive(Debug)]
struct Face {
    peer: usize,
    axis: usize,
    bytes: Vec<u8>,
}

/// The neighbours of a rank.
#[derive(Debug)]
pub(crate) struct Halo {
    lower: Vec<Face>,
    upper: Vec<Face>,
    /// Whether any rank has a neighbour; if not, nobody calls the communicator.
    any: bool,
}

impl Halo {
    pub fn new(layout: &Layout, rank: usize) -> Result<Self, TryReserveError> {
        let len = layout.block(rank).len;
        let faces = |side| {
            let mut faces = Vec::new();
            for axis in 0..3 {
                if let Some(peer) = layout.neighbour(rank, axis, side) {
                    let count = 2 * len[(axis + 1) % 3] * len[(axis + 2) % 3] * size_of::<f64>();
                    let mut bytes = Vec::new();
                    bytes.try_reserve_exact(count)?;
                    bytes.resize(count, 0);
                    faces.push(Face { peer, axis, bytes });
                }
            }
            Ok::<_, TryReserveError>(faces)
        };
        Ok(Self { lower: faces(Side::Lower)?, upper: faces(Side::Upper)?, any: layout.used_ranks() > 1 })
    }

    /// Collective: fills the upper halo of E.
    pub fn exchange_electric(
        &mut self,
        comm: &dyn Communicator,
        lattice: &Lattice,
        electric: &mut [Vec<f64>; 3],
    ) -> Result<(), CommError> {
        for face in &mut self.lower {
            pack(face, lattice, 0, electric);
        }
        if self.any {
            exchange(comm, &self.lower, &mut self.upper)?;
        }
        for face in &self.upper {
            unpack(face, lattice, lattice.len[face.axis], electric);
        }
        Ok(())
    }

    /// Collective: fills the lower halo of H.
    pub fn exchange_magnetic(
        &mut self,
        comm: &dyn Communicator,
        lattice: &Lattice,
        magnetic: &mut [Vec<f64>; 3],
    ) -> Result<(), CommError> {
        for face in &mut self.upper {
            pack(face, lattice, lattice.len[face.axis], magnetic);
        }
        if self.any {
            exchange(comm, &self.upper, &mut self.lower)?;
        }
        for face in &self.lower {
            unpack(face, lattice, 0, magnetic);
        }
        Ok(())
    }
}

/// Sends `from` and receives into `to`; at most three faces each, so that the lists fit the stack.
fn exchange(comm: &dyn Communicator, from: &[Face], to: &mut [Face]) -> Result<(), CommError> {
    let (send_count, receive_count) = (from.len(), to.len());
    let slices: [[&[u8]; 1]; 3] = std::array::from_fn(|n| [from.get(n).map_or(&[][..], |face| &face.bytes)]);
    let sends: [(usize, &[&[u8]]); 3] =
        std::array::from_fn(|n| (from.get(n).map_or(0, |face| face.peer), &slices[n][..]));
    let mut receives: [(usize, &mut [u8]); 3] = [(0, &mut []), (0, &mut []), (0, &mut [])];
    for (receive, face) in receives.iter_mut().zip(to) {
        *receive = (face.peer, &mut face.bytes);
    }
    comm.exchange(&sends[..send_count], &mut receives[..receive_count])
}

/// Rows of the plane at array index `plane` along the face's axis: `row(first index, values)`. Across, the plane covers the
/// cells of the box and not its halo: indices from `shift` on, 0 for E and 1 for H.
fn for_each_row(lattice: &Lattice, axis: usize, plane: usize, shift: usize, mut row: impl FnMut(usize, usize)) {
    let mut ranges = lattice.len.map(|len| shift..shift + len);
    ranges[axis] = plane..plane + 1;
    for i in ranges[0].clone() {
        for j in ranges[1].clone() {
            row(lattice.electric([i, j, ranges[2].start]), ranges[2].len());
        }
    }
}

/// E is sent from plane 0 and received at plane `len`; H the other way about, and its cells start at index 1.
fn pack(face: &mut Face, lattice: &Lattice, plane: usize, arrays: &[Vec<f64>; 3]) {
    let shift = usize::from(plane != 0);
    let mut bytes = face.bytes.as_chunks_mut::<8>().0.iter_mut();
    for component in [(face.axis + 1) % 3, (face.axis + 2) % 3] {
        for_each_row(lattice, face.axis, plane, shift, |first, count| {
            for (value, bytes) in arrays[component][first..first + count].iter().zip(bytes.by_ref()) {
                *bytes = value.to_ne_bytes();
            }
        });
    }
    debug_assert!(bytes.next().is_none(), "the buffer is as long as the two planes");
}

fn unpack(face: &Face, lattice: &Lattice, plane: usize, arrays: &mut [Vec<f64>; 3]) {
    let shift = usize::from(plane == 0);
    let mut bytes = face.bytes.as_chunks::<8>().0.iter();
    for component in [(face.axis + 1) % 3, (face.axis + 2) % 3] {
        for_each_row(lattice, face.axis, plane, shift, |first, count| {
            for (value, bytes) in arrays[component][first..first + count].iter_mut().zip(bytes.by_ref()) {
                *value = f64::from_ne_bytes(*bytes);
            }
        });
    }
    debug_assert!(bytes.next().is_none(), "the buffer is as long as the two planes");
}
