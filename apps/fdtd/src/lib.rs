//! A 3-D Maxwell solver.
