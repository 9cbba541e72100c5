//! The naive reference: gather everything to one rank, put it in order, write it there. No domains, no rounds, no
//! cleverness; tests hold every path of the engine against it, byte by byte.

use afflux_comm::Communicator;
use afflux_plan::{Extents, wire};
use afflux_storage::{StorageFile, StorageFileExt};

use crate::CollectiveError;

/// Collective: writes as [`CollectiveFile::write_all`](crate::CollectiveFile::write_all) does, through rank 0 alone.
///
/// # Errors
/// [`CollectiveError::Comm`]; on rank 0 also [`CollectiveError::Io`] (there is no verdict here).
pub fn write_all(
    comm: &dyn Communicator,
    file: &dyn StorageFile,
    extents: &Extents,
    data: &[&[u8]],
) -> Result<(), CollectiveError> {
    let mut description = Vec::new();
    wire::encode(extents, &mut description);
    let descriptions = comm.gather(0, &description)?;
    let payloads = comm.gather(0, &data.concat())?;
    let mut pieces: Vec<(u64, &[u8])> = Vec::new();
    for (rank, (description, payload)) in descriptions.iter().zip(&payloads).enumerate() {
        let extents = wire::decode(description)
            .map_err(|error| CollectiveError::Protocol { rank, message: error.to_string() })?;
        let mut rest = payload.as_slice();
        for (offset, length) in extents.pieces() {
            let (piece, behind) = rest.split_at(crate::memory::in_memory(length));
            pieces.push((offset, piece));
            rest = behind;
        }
    }
    pieces.sort_by_key(|(offset, _)| *offset);
    for (offset, bytes) in pieces {
        file.write_all_at(bytes, offset).map_err(|error| CollectiveError::Io {
            rank: 0,
            operation: crate::IoOperation::Write,
            offset,
            length_bytes: bytes.len() as u64,
            errno: error.raw_os_error(),
            kind: error.kind(),
            message: error.to_string(),
        })?;
    }
    comm.barrier()?;
    Ok(())
}
