//! The afflux command.

fn main() {}
