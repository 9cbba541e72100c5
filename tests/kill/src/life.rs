//! One start of a run within a trial: how it is set up, and when it is killed. All choices are random.

use std::path::Path;

use crate::process::{Moment, Victims};
use crate::random::Random;
use crate::reference::Reference;
use crate::tools::Backend;
use crate::workload::{Kind, Workload};

/// Ranks of the first start.
const RANKS_FIRST: usize = 4;
/// Ranks of later starts.
const RANKS_LATER: [usize; 5] = [1, 2, 3, 4, 7];
const WINDOWS: [u64; 5] = [1, 7, 10, 25, 60];
/// Part of the kills that come at a call rather than by the clock, of a hundred.
const CALLS_PERCENT: u64 = 60;

/// What a resumed run does with rows that are in the file already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    Skip,
    Compare,
    Rewrite,
}

impl Replay {
    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Compare => "compare",
            Self::Rewrite => "rewrite",
        }
    }
}

/// A start.
#[derive(Debug, Clone)]
pub struct Life {
    pub backend: Backend,
    pub ranks: usize,
    pub window: u64,
    checkpoint_every: Option<u64>,
    rebalance_every: Option<u64>,
    /// `None` for the first start, which makes a new file.
    pub replay: Option<Replay>,
    /// Where it begins, of what the watermark allows.
    start_fraction: f64,
    /// Whether the solver uses its checkpoint.
    from_checkpoint: bool,
    pub moment: Option<Moment>,
    pub victims: Victims,
}

impl Life {
    /// The first start, which is killed.
    pub fn first(
        random: &mut Random,
        backend: Backend,
        (workload, reference): (&Workload, &Reference),
        strace: bool,
    ) -> Self {
        let mut life = Self::drawn(random, backend, RANKS_FIRST, None);
        life.draw_moment(random, reference, strace, workload, 0);
        life
    }

    /// A later start, killed or the last, of a file that is sealed up to `watermark`.
    pub fn later(
        random: &mut Random,
        backend: Backend,
        (workload, reference): (&Workload, &Reference),
        strace: bool,
        watermark: Option<u64>,
        last: bool,
    ) -> Self {
        let ranks = *random.pick(&RANKS_LATER);
        // Replaying is the common case; the other two are shorter of code, and so of faults.
        let replay = *random.pick(&[Replay::Skip, Replay::Skip, Replay::Compare, Replay::Rewrite]);
        let mut life = Self::drawn(random, backend, ranks, Some(replay));
        if !last {
            let start = life.start(workload, watermark);
            life.draw_moment(random, reference, strace, workload, start);
        }
        life
    }

    fn drawn(random: &mut Random, backend: Backend, ranks: usize, replay: Option<Replay>) -> Self {
        Self {
            backend,
            ranks,
            window: *random.pick(&WINDOWS),
            checkpoint_every: random.percent(60).then(|| 5 + random.below(40)),
            rebalance_every: random.percent(60).then(|| 3 + random.below(40)),
            replay,
            start_fraction: random.fraction(),
            from_checkpoint: random.percent(80),
            moment: None,
            victims: Victims::All,
        }
    }

    /// Anywhere in the life of a run from step `start` on, its first and last moments included.
    fn draw_moment(
        &mut self,
        random: &mut Random,
        reference: &Reference,
        strace: bool,
        workload: &Workload,
        start: u64,
    ) {
        if self.backend != Backend::Threads && random.percent(50) {
            self.victims = Victims::One(rank_of(random, self.ranks));
        }
        let steps = (workload.steps - start) as f64;
        self.moment = Some(if strace && random.percent(CALLS_PERCENT) {
            let every = |steps_between: Option<u64>| steps_between.map_or(0.0, |between| steps / between as f64);
            let flushes = every(Some(self.window)) + every(self.checkpoint_every) + every(self.rebalance_every);
            // A little beyond the last call: then the run comes to its end.
            let most = reference.calls(flushes) * 1.02 + 1.0;
            let at = random.fraction() * most;
            let nth = (1..).find(|&nth| nth as f64 > at).unwrap_or(1);
            Moment::Call { rank: rank_of(random, self.ranks), nth }
        } else {
            let whole = reference.seconds(self.backend);
            let pace = if workload.step_seconds > 0.0 { workload.step_seconds } else { whole / workload.steps as f64 };
            let begin = (whole - pace * workload.steps as f64).max(0.0);
            Moment::Clock { seconds: random.fraction() * (begin + pace * steps) * 1.05 }
        });
    }

    /// The step at which a made-up run begins, when the file is sealed up to `watermark`.
    pub fn start(&self, workload: &Workload, watermark: Option<u64>) -> u64 {
        match (workload.kind, watermark) {
            (Kind::Synth, Some(watermark)) => {
                // Anything up to the step behind the watermark leaves no hole. The last choice is as good as any other.
                let choices = (watermark + 2).min(workload.steps) as f64;
                let start = (self.start_fraction * choices).floor();
                (0..workload.steps).rev().find(|&step| step as f64 <= start).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// The arguments of the command.
    pub fn arguments(&self, workload: &Workload, file: &Path, watermark: Option<u64>) -> Vec<String> {
        let mut arguments = workload.command(file, self.start(workload, watermark));
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("--window", self.window.to_string());
        if let Some(every) = self.checkpoint_every {
            add("--checkpoint-every", every.to_string());
        }
        if let Some(every) = self.rebalance_every {
            add("--rebalance-every", every.to_string());
        }
        if let Some(replay) = self.replay {
            add("--resume", replay.name().to_owned());
        }
        let checkpoint = Workload::checkpoint(file);
        if workload.kind == Kind::Fdtd && self.replay.is_some() && self.from_checkpoint && checkpoint.exists() {
            add("--restart-from", checkpoint.display().to_string());
        }
        // A call is met at any pace; the clock needs a run that lasts.
        if workload.step_seconds > 0.0 && matches!(self.moment, Some(Moment::Clock { .. })) {
            add("--step-seconds", workload.step_seconds.to_string());
        }
        arguments
    }
}

fn rank_of(random: &mut Random, ranks: usize) -> usize {
    usize::try_from(random.below(ranks as u64)).expect("a rank")
}
