//! What the ranks tell one another before an access.
//!
//! One collective call, so that all decide alike. Few ranks gather what each of them accesses, and then know all there is
//! to know where its description is short (regular accesses are, however many pieces they have). Many ranks reduce it to sums,
//! because no rank may hold a list of all ranks' accesses.

use afflux_comm::{Communicator, PendingReduce, Reduce};
use afflux_plan::{AccessSummary, ByteRange, Extents, Rank, wire};

use crate::CollectiveError;

/// Up to so many ranks everyone hears of everyone.
const RANKS_GATHERED_MAX: usize = 64;

/// The longest description that travels with the survey: with 64 ranks 128 KiB, and a message that memory of the node takes.
const DESCRIPTION_BYTES_MAX: usize = 2 << 10;

/// Numbers that say what is known of the file; 0 from all ranks but rank 0.
pub(crate) const FILE_WORDS: usize = 4;

/// Numbers that every rank gives, before its description.
const WORDS: usize = 8 + FILE_WORDS;

/// What this rank says.
pub(crate) struct Statement<'a> {
    pub(crate) extents: &'a Extents,
    /// It has failed already and accesses nothing.
    pub(crate) failed: bool,
    /// Stands for what must be equal on all ranks.
    pub(crate) call_hash: u64,
    /// What is known of the file: rank 0's counts, so that all believe the same.
    pub(crate) file: [u64; FILE_WORDS],
}

/// What all ranks know then.
pub(crate) struct Survey {
    pub(crate) access: AccessSummary,
    pub(crate) failed_ranks: u64,
    /// Smallest and largest of the ranks' hashes.
    pub(crate) call_hashes: (u64, u64),
    /// Every rank's extents, ascending by rank; where ranks are few and all descriptions short.
    pub(crate) known: Option<Vec<(Rank, Extents)>>,
    /// What rank 0 knows of the file.
    pub(crate) file: [u64; FILE_WORDS],
    /// Bytes of description that this rank gave.
    pub(crate) description_bytes: u64,
}

/// Collective.
pub(crate) fn survey(comm: &dyn Communicator, mine: &Statement<'_>) -> Result<Survey, CollectiveError> {
    if comm.size() <= RANKS_GATHERED_MAX { gathered(comm, mine) } else { reduced(comm, mine) }
}

/// The elements whose combination over all ranks is the survey.
fn elements(mine: &Statement<'_>) -> [Reduce; WORDS] {
    let extents = mine.extents;
    let span = extents.span();
    [
        Reduce::min(mine.call_hash),
        Reduce::max(mine.call_hash),
        Reduce::sum(u64::from(mine.failed)),
        Reduce::min(span.map_or(u64::MAX, |(start, _)| start)),
        Reduce::max(span.map_or(0, |(_, end)| end)),
        Reduce::sum(extents.bytes()),
        Reduce::sum(extents.piece_count()),
        Reduce::sum(span.map_or(0, |(start, end)| end - start)),
        Reduce::max(mine.file[0]),
        Reduce::max(mine.file[1]),
        Reduce::max(mine.file[2]),
        Reduce::max(mine.file[3]),
    ]
}

fn survey_of(combined: &[Reduce; WORDS], active_ranks: u64) -> Survey {
    let [hash_min, hash_max, failed_ranks, start, end, bytes, piece_count, span_bytes, file @ ..] =
        combined.map(|element| element.value);
    let range = if active_ranks == 0 { ByteRange::default() } else { ByteRange::new(start, end) };
    let access = AccessSummary { range, bytes, piece_count, span_bytes, active_ranks };
    Survey { access, failed_ranks, call_hashes: (hash_min, hash_max), known: None, file, description_bytes: 0 }
}

fn reduced(comm: &dyn Communicator, mine: &Statement<'_>) -> Result<Survey, CollectiveError> {
    let mut all = all_elements(mine);
    comm.all_reduce(&mut all)?;
    Ok(of_elements(all))
}

/// Collective: begins a survey by sums alone, of which [`of_elements`] makes the result.
pub(crate) fn start(comm: &dyn Communicator, mine: &Statement<'_>) -> Result<Box<dyn PendingReduce>, CollectiveError> {
    Ok(comm.start_all_reduce(all_elements(mine))?)
}

fn all_elements(mine: &Statement<'_>) -> Vec<Reduce> {
    let mut all = elements(mine).to_vec();
    all.push(Reduce::sum(u64::from(!mine.extents.is_empty())));
    all
}

/// What the combined elements of all ranks say.
pub(crate) fn of_elements(mut all: Vec<Reduce>) -> Survey {
    let active_ranks = all.pop().expect("a survey has elements").value;
    survey_of(&all.try_into().expect("as many as there were"), active_ranks)
}

fn gathered(comm: &dyn Communicator, mine: &Statement<'_>) -> Result<Survey, CollectiveError> {
    let elements = elements(mine);
    let mut message: Vec<u8> = elements.iter().flat_map(|element| element.value.to_le_bytes()).collect();
    let words_end = message.len();
    message.push(1);
    wire::encode(mine.extents, &mut message);
    if message.len() > words_end + 1 + DESCRIPTION_BYTES_MAX {
        message.truncate(words_end);
    }
    let description_bytes = (message.len() - words_end) as u64;
    let mut combined: Option<[Reduce; WORDS]> = None;
    let mut known = Some(Vec::with_capacity(comm.size()));
    let mut active_ranks = 0;
    for (rank, message) in comm.all_gather(&message)?.iter().enumerate() {
        let damaged = |what: &str| CollectiveError::Protocol { rank, message: what.to_owned() };
        let (words, description) =
            message.split_at_checked(words_end).ok_or_else(|| damaged("a statement that ends too early"))?;
        let mut theirs = elements;
        for (element, word) in theirs.iter_mut().zip(words.as_chunks().0) {
            element.value = u64::from_le_bytes(*word);
        }
        match &mut combined {
            None => combined = Some(theirs),
            Some(all) => all.iter_mut().zip(theirs).for_each(|(element, other)| element.combine(other)),
        }
        active_ranks += u64::from(theirs[5].value > 0);
        match description.split_first() {
            None => known = None,
            Some((_, description)) => {
                let extents = wire::decode(description).map_err(|error| damaged(&error.to_string()))?;
                if let Some(known) = &mut known {
                    known.push((Rank(rank), extents));
                }
            }
        }
    }
    let combined = combined.expect("a communicator has ranks");
    Ok(Survey { known, description_bytes, ..survey_of(&combined, active_ranks) })
}
