//! Rebalance: points change owner. Collective.
//!
//! 1. A verdict on the call itself: all ranks mean the same set and stand at the same step.
//! 2. Every rank tells the directory which positions it has and which ids it wants; the blocks of the directory match the two. A
//!    verdict: a map that loses a point or gives it twice is refused by name, and the old one stays in force.
//! 3. A flush brings all rows into the file. What stays in memory are the rows of unfinished columns.
//! 4. The directory answers: whom a rank gets points from, whom it gives points to. Every rank makes room for its new points; a
//!    verdict, since there may be none.
//! 5. The rows of the unfinished column travel with their points, from the old owner to the new one; those of points that stay are
//!    copied. A last verdict, and the new owners are in force.
//!
//! Seven collectives beside the flush, whatever the number of points and ranks; each rank sends and keeps what concerns its own points
//! and its block of the directory. What moves is the payload of unfinished columns, and a few words for each stretch of points.

use std::time::Instant;

use afflux_comm::agree::{Failure, agree};
use afflux_comm::{Communicator, Received, Reduce};

use crate::directory::{Answer, Request, Wrongs};
use crate::error::named;
use crate::local_points::{LocalPoints, Roster};
use crate::local_set::LocalSet;
use crate::moves::{Asked, Assembled, Moves, assemble, pack, requests, unpack};
use crate::registry::count_of;
use crate::state::{Event, WriterState};
use crate::wire::{Damaged, Decoder, Encoder};
use crate::{Duplicates, RebalanceError, SeriesWriter, SetId};

/// Codes of the directory's verdict: a block refuses the map, or could not read what it was told.
const WRONG_MAP: u32 = 1;
const DAMAGED: u32 = 2;

/// What a rebalance did, on this rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebalanced {
    /// Points that other ranks got from this one.
    pub points_sent: u64,
    /// Points that this rank got from others.
    pub points_received: u64,
    /// Bytes of samples sent along: the rows of unfinished columns of the points sent.
    pub bytes_sent: u64,
    /// Points that several ranks wanted and the lowest got ([`Duplicates::LowestRank`]), over all ranks.
    pub points_doubled: u64,
}

/// A map of owners that the directory found good.
struct Map {
    /// Who asked this rank's block of the directory, and what it answers.
    answers: Vec<(usize, Answer)>,
    /// The new points.
    roster: Roster,
    asked: Asked,
    points_doubled: u64,
}

impl SeriesWriter {
    /// Collective: from the next row on, this rank gives the values of `points` (patch by patch, as at registration). Every point of
    /// the set must be on one rank again; only the ids count, places and names stay as registered. A rank may end with no points.
    ///
    /// It is called between steps: every due row of the last step has been appended. What is in memory is flushed, and the rows
    /// of unfinished columns go to the new owners: nothing is lost, nothing written twice, and the file is the same as without.
    ///
    /// # Errors
    /// On all ranks or on none. [`RebalanceError::Refused`], [`RebalanceError::Points`] and [`RebalanceError::Memory`] (on other
    /// ranks [`RebalanceError::Elsewhere`]) leave the old owners in force, and the run may go on; after any other the writer has failed.
    pub fn rebalance(&mut self, set: SetId, points: impl Into<LocalPoints>) -> Result<Rebalanced, RebalanceError> {
        self.land()?;
        if self.state != WriterState::Open {
            return Err(self.refused().into());
        }
        let begin = Instant::now();
        let before = self.statistics.seconds.total();
        let result = self.change_owners(set, &points.into());
        match &result {
            Ok(rebalanced) => {
                self.statistics.rebalances += 1;
                self.statistics.rebalance_bytes += rebalanced.bytes_sent;
            }
            Err(error) if error.is_final() => {
                self.state = self.state.after(Event::Failure).unwrap_or(WriterState::Failed);
                self.first_cause.get_or_insert_with(|| error.to_string());
            }
            Err(_) => {}
        }
        // The flush within has counted its own time.
        let flushed = self.statistics.seconds.total() - before;
        self.statistics.seconds.rebalance += (begin.elapsed().as_secs_f64() - flushed).max(0.0);
        result
    }

    fn change_owners(&mut self, set: SetId, points: &LocalPoints) -> Result<Rebalanced, RebalanceError> {
        let step_end = self.agree_on_call(set, points)?;
        let map = self.match_owners(set, points)?;
        if let Some(step) = step_end.checked_sub(1)
            && self.watermark.is_none_or(|watermark| watermark < step)
        {
            self.flush(step + 1, step)?;
        }
        self.state = self.state.after(Event::RebalanceBegins).ok_or_else(|| self.refused())?;
        let moved = self.move_points(set, map);
        if moved.as_ref().map_or_else(|error| !error.is_final(), |_| true) {
            self.state = self.state.after(Event::RebalanceEnds).expect("a rebalance ends");
        }
        moved
    }

    /// What this rank can refuse alone.
    fn check_rebalance(&self, set: SetId, points: &LocalPoints) -> Result<(), String> {
        let Some(local) = self.sets.get(set.0) else {
            return Err(format!("there is no set {}; there are {}", set.0, self.sets.len()));
        };
        let is_late = |set: &&LocalSet, step| set.missing_count > 0 || set.next_due.is_some_and(|due| due <= step);
        if let Some(step) = self.step
            && let Some(late) = self.sets.iter().find(|set| is_late(set, step))
        {
            let name = named(&late.name);
            return Err(format!(
                "{name} has no whole row for step {step} yet: rebalance between steps, when every due row has been appended"
            ));
        }
        points.check().map_err(|problem| format!("{}: {problem}", named(&local.name)))
    }

    /// Collective: every rank's own checks, and that all mean the same. Returns one more than the step at which the ranks
    /// stand; 0 before the first.
    fn agree_on_call(&self, set: SetId, points: &LocalPoints) -> Result<u64, RebalanceError> {
        let checked = self.check_rebalance(set, points);
        let step_end = self.step.map_or(0, |step| step + 1);
        let mut elements = [set.0 as u64, step_end].map(|value| [Reduce::min(value), Reduce::max(value)]).concat();
        let outcome = checked.clone().map_err(|problem| (0, problem));
        let verdict = agree(self.file.communicator(), outcome, &mut elements)?;
        let [set_min, set_max, end_min, end_max] = [0, 1, 2, 3].map(|index| elements[index].value);
        if set_min != set_max {
            let problem = format!("ranks ask for different sets, {set_min} and {set_max}");
            return Err(RebalanceError::Refused { problem });
        }
        if end_min != end_max {
            let [low, high] =
                [end_min, end_max].map(|end| end.checked_sub(1).map_or("none yet".to_owned(), |step| step.to_string()));
            let problem = format!("ranks stand at different steps, {low} and {high}");
            return Err(RebalanceError::Refused { problem });
        }
        checked.map_err(|problem| RebalanceError::Refused { problem })?;
        verdict.map_err(elsewhere)?;
        Ok(step_end)
    }

    /// Collective: the new owners matched with the old ones.
    fn match_owners(&self, set: SetId, points: &LocalPoints) -> Result<Map, RebalanceError> {
        let comm = self.file.communicator();
        let local = &self.sets[set.0];
        let roster = Roster::of(points);
        let (messages, asked) = requests(local, &roster);
        let received = comm.sparse_exchange(&slices(&messages))?;
        let matched = answers_to(local, &received);
        let may_double = local.duplicates == Duplicates::LowestRank;
        let (outcome, counts) = match &matched {
            Err(damaged) => (Err((DAMAGED, damaged.to_string())), [0; 3]),
            Ok((_, wrongs)) => {
                let names = wrongs.are_wrong(may_double).then(|| (WRONG_MAP, wrongs.names(may_double)));
                let Wrongs { lost, doubled, unknown } = wrongs;
                (names.map_or(Ok(()), Err), [lost.count, doubled.count, unknown.count])
            }
        };
        let mut totals = counts.map(Reduce::sum);
        let verdict = agree(comm, outcome, &mut totals)?;
        let counts = totals.map(|element| element.value);
        match verdict {
            Ok(()) => {
                let (answers, _) = matched.expect("no rank failed");
                Ok(Map { answers, roster, asked, points_doubled: counts[1] })
            }
            Err(failure) if failure.code == WRONG_MAP => {
                let problem = wrong_map(counts, may_double, &failure.message);
                Err(RebalanceError::Points { set: local.name.clone(), problem })
            }
            Err(failure) => Err(elsewhere(failure)),
        }
    }

    /// Collective: answers, room, and the rows themselves.
    fn move_points(&mut self, set: SetId, map: Map) -> Result<Rebalanced, RebalanceError> {
        let comm = self.file.communicator();
        let local = &self.sets[set.0];
        // What the old owners have rewritten of a column of the file is theirs to finish.
        let left = self.replaying.as_mut().map_or(Ok(()), |replaying| replaying.leave_column(set.0, local));
        let messages: Vec<(usize, Vec<u8>)> =
            map.answers.iter().map(|(rank, answer)| (*rank, encoded(answer))).collect();
        let received = comm.sparse_exchange(&slices(&messages))?;
        let room = match left {
            Ok(()) => make_room(local, map.roster, &map.asked, &received),
            Err(error) => Err(RebalanceError::Refused { problem: format!("cannot rewrite replayed rows: {error}") }),
        };
        let pieces = self.sets.iter().enumerate().map(|(index, other)| match &room {
            Ok((renewed, _)) if index == set.0 => renewed.layout.pieces(),
            _ => other.layout.pieces(),
        });
        let (bytes, pieces) = pieces.fold((0, 0), |sum, (bytes, pieces)| (sum.0 + bytes, sum.1 + pieces));
        let mut totals = [Reduce::sum(bytes), Reduce::sum(pieces), Reduce::max(pieces)];
        let outcome = room.as_ref().map(|_| ()).map_err(|error| (0, error.to_string()));
        let verdict = agree(comm, outcome, &mut totals)?;
        let (mut renewed, moves) = room?;
        verdict.map_err(elsewhere)?;

        let rebalanced = send_rows(comm, local, &mut renewed, &moves)?;
        let outcome = rebalanced.as_ref().map(|_| ()).map_err(|damaged| (0, damaged.to_string()));
        agree(comm, outcome, &mut [])?
            .map_err(|failure| RebalanceError::Lost { rank: failure.rank, message: failure.message })?;
        let rebalanced = rebalanced.expect("no rank failed");
        self.path = self.route.path(totals.map(|element| element.value));
        self.sets[set.0] = renewed;
        Ok(Rebalanced { points_doubled: map.points_doubled, ..rebalanced })
    }
}

/// The set with its new points, and what moves.
fn make_room(
    local: &LocalSet,
    roster: Roster,
    asked: &Asked,
    received: &[Received],
) -> Result<(LocalSet, Moves), RebalanceError> {
    let refused = |damaged: Damaged| RebalanceError::Refused { problem: damaged.to_string() };
    let Assembled { placement, from, to } = assemble(local, roster, asked, received).map_err(refused)?;
    let renewed = local.with_placement(placement).map_err(|source| RebalanceError::Memory { source })?;
    let moves = Moves::between(local, &renewed, &from, &to);
    Ok((renewed, moves))
}

/// Collective: the rows of points that move. The inner error is this rank's own.
fn send_rows(
    comm: &dyn Communicator,
    local: &LocalSet,
    renewed: &mut LocalSet,
    moves: &Moves,
) -> Result<Result<Rebalanced, Damaged>, RebalanceError> {
    let me = comm.rank();
    let has_rows = local.window.rows() > 0;
    let others = |(rank, _): &(&usize, &Vec<u32>)| **rank != me && has_rows;
    let packed: Vec<(usize, Vec<u8>)> =
        moves.to.iter().filter(others).map(|(&rank, places)| (rank, pack(local, places))).collect();
    let arrived = comm.sparse_exchange(&slices(&packed))?;
    let mut unpack_all = || {
        if let (Some(old), Some(new)) = (moves.to.get(&me), moves.from.get(&me)) {
            unpack(renewed, new, &pack(local, old))?;
        }
        let expected = moves.from.iter().filter(others).map(|(&rank, _)| rank);
        if !expected.eq(arrived.iter().map(|message| message.source)) {
            return Err(Damaged);
        }
        arrived.iter().try_for_each(|message| unpack(renewed, &moves.from[&message.source], &message.bytes))
    };
    let count = |places: (&usize, &Vec<u32>)| if *places.0 == me { 0 } else { places.1.len() as u64 };
    Ok(unpack_all().map(|()| Rebalanced {
        points_sent: moves.to.iter().map(count).sum(),
        points_received: moves.from.iter().map(count).sum(),
        bytes_sent: packed.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
        points_doubled: 0,
    }))
}

/// What this rank's block of the directory makes of the requests it got.
fn answers_to(local: &LocalSet, received: &[Received]) -> Result<(Vec<(usize, Answer)>, Wrongs), Damaged> {
    let requests = received
        .iter()
        .map(|message| Ok((message.source, Request::decode(&mut Decoder::new(&message.bytes))?)))
        .collect::<Result<Vec<_>, Damaged>>()?;
    let (answers, wrongs) = local.directory.block.match_requests(&requests)?;
    Ok((requests.into_iter().map(|(rank, _)| rank).zip(answers).collect(), wrongs))
}

/// What is wrong with a map: counts of lost, doubled and unknown points over all ranks, and some names.
fn wrong_map([lost, doubled, unknown]: [u64; 3], may_double: bool, names: &str) -> String {
    let mut parts = Vec::new();
    if lost > 0 {
        parts.push(format!("{} no owner", count_of(lost, "point has", "points have")));
    }
    if doubled > 0 && !may_double {
        parts.push(format!("{} several", count_of(doubled, "point has", "points have")));
    }
    if unknown > 0 {
        parts.push(format!("{} not in the set", count_of(unknown, "id is", "ids are")));
    }
    format!("in the new map {} ({names}); the old owners stay", parts.join(", "))
}

fn elsewhere(failure: Failure) -> RebalanceError {
    RebalanceError::Elsewhere { rank: failure.rank, message: failure.message }
}

fn encoded(answer: &Answer) -> Vec<u8> {
    let mut message = Encoder::default();
    answer.encode(&mut message);
    message.finish()
}

fn slices(messages: &[(usize, Vec<u8>)]) -> Vec<(usize, &[u8])> {
    messages.iter().map(|(rank, bytes)| (*rank, &bytes[..])).collect()
}
