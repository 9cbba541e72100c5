//! Pure plans of collective I/O: which bytes of a file an access touches, who answers for them, in which rounds they move.
//!
//! No message, no file, no clock: the same functions run in the engine, in property tests and in explanations.
//!
//! In the order of a two-phase access: [`Extents`] say what a rank accesses; [`choose_method`] decides from an
//! [`AccessSummary`] whether to exchange; [`AggregatorLayout`] and [`FileDomains`] say who answers for what;
//! [`plan_sends`] cuts a rank's extents; [`wire`] carries the descriptions; on an aggregator [`cover`] joins them.
#![forbid(unsafe_code)]

mod choice;
mod cover;
mod decide;
mod domains;
mod extents;
mod layout;
mod range;
mod sends;
mod throttle;
pub mod wire;

pub use choice::{FileTraits, Locks, PartitionMethod};
pub use cover::{Coverage, Overlap, cover};
pub use decide::{
    AccessSummary, Explanation, INDEPENDENT_READ_PIECE_BYTES_MIN, INDEPENDENT_WRITE_PIECE_BYTES_MIN, Method,
    choose_method,
};
pub use domains::{Block, FileDomains, Partition};
pub use extents::{Extents, PayloadIndex, Run};
pub use layout::{AggregatorLayout, LayoutRequest, Order, Topology};
pub use range::{AggregatorIndex, ByteRange, Rank};
pub use sends::{Send, owners_of, plan_sends};
pub use throttle::{RingPlace, Throttle, even_counts_below};
