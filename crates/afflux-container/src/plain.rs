//! Reading a dataset of any HDF5 file whole, to check what the plain-HDF5 baseline wrote (it has no seal to read by).

use hdf5_metno::{File, Result};
use std::path::Path;

/// All values of a dataset of 64-bit floats, row-major.
///
/// # Errors
/// HDF5's, where the file or the dataset cannot be read.
pub fn read_plain_f64(path: &Path, dataset: &str) -> Result<Vec<f64>> {
    File::open(path)?.dataset(dataset)?.read_raw::<f64>()
}
