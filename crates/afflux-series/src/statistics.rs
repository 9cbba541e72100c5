//! What a run of the writer cost.

/// Wall seconds by phase, of one thread of this rank.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PhaseSeconds {
    /// Registration, creation and opening of the file.
    pub create: f64,
    /// Transposition of windows into blocks, checksums included.
    pub transpose: f64,
    /// Messages: addresses of new chunks, exchange with aggregators, verdicts; waiting for other ranks shows here.
    pub exchange: f64,
    /// Writing the bytes.
    pub write: f64,
    /// Growing the file and sealing (rank 0 calls HDF5; elsewhere 0).
    pub seal: f64,
    /// Waiting for a flush in the background, when both windows were full or the run came to a checkpoint or its end.
    pub wait: f64,
    /// Change of owners, the flush before it excluded.
    pub rebalance: f64,
    /// The last flush excluded, closing the file.
    pub close: f64,
}

impl PhaseSeconds {
    /// The sum of all phases: the time the simulation did not compute because of its samples, appending excluded.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.create + self.transpose + self.exchange + self.write + self.seal + self.wait + self.rebalance + self.close
    }
}

/// Returned by [`SeriesWriter::close`](crate::SeriesWriter::close), the same on all ranks but for `seconds`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// Rows that this run has added to the file, over all sets.
    pub rows: u64,
    /// Rows that the file had already and that were given again, over all sets; of the rank that replayed most.
    pub replayed_rows: u64,
    /// Bytes of blocks that replayed rows have changed in the file, over all ranks.
    pub rewritten_bytes: u64,
    /// Bytes of samples: rows x points x bytes of a point's row, over all sets and ranks.
    pub payload_bytes: u64,
    /// Length of the closed file.
    pub file_bytes: u64,
    /// Flushes made.
    pub flushes: u64,
    /// Write calls for sample data, over all ranks.
    pub data_writes: u64,
    /// Write calls for the file's structure and seals.
    pub structure_writes: u64,
    /// Times that points changed owner.
    pub rebalances: u64,
    /// Bytes of samples that went from rank to rank then, over all ranks.
    pub rebalance_bytes: u64,
    /// Last sealed step.
    pub watermark: Option<u64>,
    /// Memory of this rank's windows and staging buffer at their largest, in bytes.
    pub memory_bytes: u64,
    /// Where the time of the simulation's thread went on this rank.
    pub seconds: PhaseSeconds,
    /// What helper threads did for this rank meanwhile: `transpose`, `write` and `seal`.
    pub helper_seconds: PhaseSeconds,
}
