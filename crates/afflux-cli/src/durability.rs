//! The option `--durability`, which the commands that write a file share.

use afflux::Durability;
use clap::ValueEnum;

/// What sealed rows survive; see [`Durability`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum DurabilityArgument {
    /// The death of any process, at any instant; nothing waits for the medium.
    #[default]
    ProcessCrash,
    /// A power failure too: every flush waits for the medium.
    PowerLoss,
}

impl From<DurabilityArgument> for Durability {
    fn from(argument: DurabilityArgument) -> Self {
        match argument {
            DurabilityArgument::ProcessCrash => Self::ProcessCrash,
            DurabilityArgument::PowerLoss => Self::PowerLoss,
        }
    }
}
