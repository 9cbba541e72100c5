//! Tells which layout of `H5FD_class_t` and which names of enumerators the HDF5 library at hand expects.
//!
//! `hdf5-metno-sys` publishes one `DEP_HDF5_VERSION_x_y_z` for every release up to the one it found.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (cfg, variable) in [("hdf5_1_12", "DEP_HDF5_VERSION_1_12_0"), ("hdf5_1_14", "DEP_HDF5_VERSION_1_14_0")] {
        println!("cargo::rustc-check-cfg=cfg({cfg})");
        if std::env::var_os(variable).is_some() {
            println!("cargo::rustc-cfg={cfg}");
        }
    }
}
