//! The writer seen from outside: what it writes is read back with plain HDF5, at the end and at every instant before.

mod crash;
mod faults;
mod round_trip;
mod serial;
mod support;
