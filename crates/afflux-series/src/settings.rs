//! What a description must be: each rank checks its own, rank 0 that they agree.

use crate::builder::SeriesBuilder;
use crate::error::named;
use crate::{OpenError, STEP_MAX, SealOnSignal};

impl SeriesBuilder {
    /// What this rank can check alone.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let refuse = |text: String| Err(OpenError::Settings(text));
        if self.sets.is_empty() {
            return refuse("a file needs at least one set: add one with `.set(ProbeSet::new(..))`".to_owned());
        }
        if self.window_steps == 0 || self.chunk_steps == 0 || self.chunk_bytes == 0 {
            return refuse("window_steps, chunk_steps and chunk_bytes must be at least 1".to_owned());
        }
        if let Some(seconds) = self.flush_seconds
            && !(seconds.is_finite() && seconds > 0.0)
        {
            return refuse(format!("flush_seconds is {seconds}; give a positive number"));
        }
        for set in &self.sets {
            if set.variables.is_empty() {
                return refuse(format!("{} needs at least one variable", named(&set.name)));
            }
            if set.cadence_steps > STEP_MAX {
                let name = named(&set.name);
                return refuse(format!("{name}: a cadence of {} steps is beyond {STEP_MAX}", set.cadence_steps));
            }
            if set.cadence_steps == 0 {
                return refuse(format!(
                    "{}: a cadence of 0 steps means nothing; give 1 for every step",
                    named(&set.name)
                ));
            }
            if let Some(variable) = set.variables.iter().find(|variable| variable.spec.components == Some(0)) {
                return refuse(format!("variable `{}` of {} has 0 components", variable.spec.name, named(&set.name)));
            }
            let points = set.points.check().and_then(|()| set.expected.check());
            points.map_err(|problem| OpenError::Points { set: set.name.clone(), problem })?;
        }
        Ok(())
    }

    /// The settings that all ranks must share, a line each.
    pub(crate) fn settings(&self) -> Vec<String> {
        let mut lines = vec![
            format!("path {}", self.path.display()),
            format!("window_steps {}", self.window_steps),
            format!("flush_seconds {:?}", self.flush_seconds),
            format!("background {}", self.in_background),
            format!("durability {:?}", self.durability),
            self.seal_on_signal.as_ref().map_or("no seal on signals".to_owned(), SealOnSignal::setting),
            format!("chunk_steps {}", self.chunk_steps),
            format!("chunk_bytes {}", self.chunk_bytes),
            format!("existing {:?}", self.existing),
            format!("step_offset {}", self.step_offset),
            format!("resume_check {:?}", self.resume_check),
            format!("units of time `{}` and length `{}`", self.time_units, self.length_units),
            format!("attributes {:?}", self.attributes),
            format!("groups {}", self.groups),
            format!("write_path {:?}", self.path_choice),
            format!("hints {:?}", self.hints),
        ];
        for set in &self.sets {
            lines.push(format!("{} every {} steps", named(&set.name), set.cadence_steps));
            lines.push(format!("policies of {}: {:?}, {:?}", named(&set.name), set.duplicates, set.orphans));
            for variable in &set.variables {
                lines.push(format!("variable {:?} of {}", variable.spec, named(&set.name)));
            }
        }
        lines
    }
}

/// The first line in which a rank's settings differ from rank 0's.
pub(crate) fn first_difference(own: &[String], other: &[&str]) -> Option<String> {
    let differing = own.iter().zip(other).find(|(mine, theirs)| mine != *theirs);
    match differing {
        Some((mine, theirs)) => Some(format!("rank 0 has {mine}, the other {theirs}")),
        None => match (own.get(other.len()), other.get(own.len())) {
            (Some(mine), _) => Some(format!("only rank 0 has {mine}")),
            (None, Some(theirs)) => Some(format!("rank 0 lacks {theirs}")),
            (None, None) => None,
        },
    }
}
