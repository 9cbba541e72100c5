//! Cuts of the write sequence.
