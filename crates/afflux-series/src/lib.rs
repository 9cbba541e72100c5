//! Probe sets, windows, transposition, and the writer that keeps every step exactly once.
