//! Benchmarks under one timing rule.
