//! What becomes of a file that exists: the arguments that `fdtd` and `synth` share.

use afflux::{Existing, Replay};
use clap::{Args, ValueEnum};

/// Without any of them an existing file is refused.
#[derive(Debug, Clone, Args)]
pub struct ExistingArguments {
    /// Put the new file in place of an existing one.
    #[arg(long)]
    replace: bool,
    /// Go on with an existing file (a missing one is made); HOW says what to do with rows that it has already.
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "skip", conflicts_with = "replace")]
    resume: Option<Rows>,
}

/// What to do with rows that the file has already; skip unless said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rows {
    /// Pass over them.
    Skip,
    /// Compare them with the file; a difference ends the run.
    Compare,
    /// Write them over what the file has.
    Rewrite,
}

impl ExistingArguments {
    /// The same in the words of the library.
    pub fn existing(&self) -> Existing {
        match (self.replace, self.resume) {
            (true, _) => Existing::Replace,
            (false, None) => Existing::Refuse,
            (false, Some(Rows::Skip)) => Existing::Resume(Replay::Skip),
            (false, Some(Rows::Compare)) => Existing::Resume(Replay::Compare),
            (false, Some(Rows::Rewrite)) => Existing::Resume(Replay::Rewrite),
        }
    }
}
