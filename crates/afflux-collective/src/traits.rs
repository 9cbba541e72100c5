//! What is known of a file: read by rank 0, told to all with the survey, so that no rank believes anything else.

use std::num::NonZeroU64;

use afflux_plan::{FileTraits, Locks};
use afflux_storage::{FileSystemKind, StorageFile};

use crate::survey::FILE_WORDS;

/// What rank 0 says of the file.
pub(crate) fn words_of(file: &dyn StorageFile, existed: bool) -> [u64; FILE_WORDS] {
    // A layout that is not understood is as good as none; it is no reason not to write.
    let striping = file.striping().ok().flatten();
    let locks = match (file.file_system(), striping) {
        (FileSystemKind::Local, _) => Locks::Free,
        (FileSystemKind::Gpfs, _) => Locks::Ranges,
        (FileSystemKind::Lustre, _) | (_, Some(_)) => Locks::Objects,
        _ => Locks::Unknown,
    };
    let locks = match locks {
        Locks::Free => 1,
        Locks::Ranges => 2,
        Locks::Objects => 3,
        _ => 0,
    };
    let (stripe_bytes, stripe_count) = striping.map_or((0, 0), |found| (found.stripe_bytes, found.stripe_count));
    [locks, stripe_bytes, stripe_count, u64::from(existed)]
}

/// What all ranks make of it, and whether the file was there before it was opened. `asked_stripe_bytes` is the hint, for a file
/// system that does not tell.
pub(crate) fn traits_of(
    words: [u64; FILE_WORDS],
    node_count: u32,
    asked_stripe_bytes: Option<NonZeroU64>,
) -> (FileTraits, bool) {
    let [locks, stripe_bytes, stripe_count, existed] = words;
    let locks = match locks {
        1 => Locks::Free,
        2 => Locks::Ranges,
        3 => Locks::Objects,
        // Within one kernel nobody hands out locks.
        _ if node_count == 1 => Locks::Free,
        _ => Locks::Unknown,
    };
    let stripe_bytes = NonZeroU64::new(stripe_bytes).or(asked_stripe_bytes);
    (FileTraits { locks, stripe_bytes, stripe_count: NonZeroU64::new(stripe_count) }, existed != 0)
}
