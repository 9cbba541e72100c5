//! The canary: in a build whose order within a seal is turned round, the proofs must fail. All other tests of such a build may.
//!
//! `cargo test -p afflux-container --features canary-broken-seal-order --test writer canary`

use crate::{crash, resume_crash};
use std::panic::catch_unwind;

#[test]
fn the_proofs_notice_a_broken_order() {
    let proofs: [(&str, fn()); 2] = [
        ("kills at every instant", crash::the_file_opens_and_shows_all_sealed_rows_at_every_instant),
        ("kills of several lives", resume_crash::a_file_with_several_lives_opens_at_every_instant),
    ];
    for (name, proof) in proofs {
        assert!(catch_unwind(proof).is_err(), "{name}: a broken order within a seal went unnoticed");
    }
}
