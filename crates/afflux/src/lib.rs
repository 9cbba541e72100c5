//! Aggregated parallel output of sampled simulation data.
