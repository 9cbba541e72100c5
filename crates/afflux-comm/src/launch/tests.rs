//! Environments as the launchers leave them, against builds.

use super::*;

fn open_mpi() -> Build {
    Build::of_library("Open MPI v4.1.4")
}

fn mpich() -> Build {
    Build::of_library("MPICH Version: 4.0.2")
}

/// A look-up of `NAME=value` words.
fn environment(words: &'static str) -> impl Fn(&str) -> Option<String> {
    move |name| {
        words.split_whitespace().find_map(|word| {
            let (key, value) = word.split_once('=')?;
            (key == name).then(|| value.to_owned())
        })
    }
}

const OMPI: &str = "OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=1 PMIX_RANK=1";
const HYDRA: &str = "PMI_RANK=2 PMI_SIZE=3 PMI_FD=9 MPI_LOCALNRANKS=3 MPI_LOCALRANKID=2";
const HYDRA_IN_SLURM: &str = "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 PMI_SIZE=8 PMI_RANK=0 MPI_LOCALNRANKS=4";
const OMPI_IN_SLURM: &str = "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 OMPI_COMM_WORLD_SIZE=8";
const SRUN_PMI2: &str = "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=16 SLURM_PROCID=3 PMI_SIZE=16 PMI_RANK=3 PMI_FD=12";
const SRUN_PMIX: &str = "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=16 SLURM_PROCID=3 PMIX_RANK=3";
const SBATCH_SCRIPT: &str = "SLURM_JOB_ID=7 SLURM_NTASKS=16 SLURM_PROCID=0";

fn refused(build: &Build, words: &'static str) -> String {
    match decide(build, environment(words)) {
        Err(CommError::Launcher(message)) => message,
        other => panic!("{words}: {other:?}"),
    }
}

#[test]
fn alone_without_a_launcher() {
    for build in [Build::WithoutMpi, open_mpi(), mpich()] {
        assert_eq!(decide(&build, environment("HOME=/root")), Ok(Launch::Alone));
        assert_eq!(decide(&build, environment(SBATCH_SCRIPT)), Ok(Launch::Alone), "a batch script is no rank");
    }
}

#[test]
fn the_right_launcher_is_accepted() {
    assert_eq!(decide(&open_mpi(), environment(OMPI)), Ok(Launch::Mpi { ranks: 3 }));
    assert_eq!(decide(&mpich(), environment(HYDRA)), Ok(Launch::Mpi { ranks: 3 }));
    assert_eq!(decide(&open_mpi(), environment(OMPI_IN_SLURM)), Ok(Launch::Mpi { ranks: 8 }));
    assert_eq!(decide(&mpich(), environment(HYDRA_IN_SLURM)), Ok(Launch::Mpi { ranks: 8 }));
    for build in [open_mpi(), mpich(), Build::of_library("HyperMPI 1")] {
        assert_eq!(decide(&build, environment(SRUN_PMI2)), Ok(Launch::Mpi { ranks: 16 }));
        assert_eq!(decide(&build, environment(SRUN_PMIX)), Ok(Launch::Mpi { ranks: 16 }));
    }
}

#[test]
fn the_launcher_of_another_mpi_is_refused_with_what_to_do() {
    let message = refused(&open_mpi(), HYDRA);
    for part in ["built with Open MPI v4.1.4", "MPICH's mpirun (PMI_SIZE=3)", "mpirun.openmpi", "MPICC=mpicc.mpich"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let message = refused(&mpich(), OMPI);
    for part in ["built with MPICH", "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE=3)", "mpirun.mpich", "mpicc.openmpi"] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn a_build_without_mpi_is_refused_under_every_launcher() {
    for words in [OMPI, HYDRA, HYDRA_IN_SLURM, OMPI_IN_SLURM, SRUN_PMI2, SRUN_PMIX] {
        assert!(refused(&Build::WithoutMpi, words).contains("without MPI"), "{words}");
    }
    refused(&Build::WithoutMpi, "PMIX_RANK=2");
}

#[test]
fn a_single_rank_of_any_launcher_is_alone_or_one() {
    assert_eq!(decide(&Build::WithoutMpi, environment("PMI_SIZE=1 PMI_RANK=0")), Ok(Launch::Alone));
    assert_eq!(decide(&open_mpi(), environment("PMI_SIZE=1 PMI_RANK=0")), Ok(Launch::Mpi { ranks: 1 }));
    assert_eq!(decide(&mpich(), environment("OMPI_COMM_WORLD_SIZE=1")), Ok(Launch::Mpi { ranks: 1 }));
}

#[test]
fn a_world_smaller_than_announced_is_refused() {
    let srun = environment(SRUN_PMIX);
    let launch = decide(&mpich(), &srun).unwrap();
    assert_eq!(check_world_size(&mpich(), launch, 16, &srun), Ok(()));
    let Err(CommError::Launcher(message)) = check_world_size(&mpich(), launch, 1, &srun) else { panic!("accepted") };
    assert!(message.contains("srun --mpi=list"), "{message}");
    assert!(check_world_size(&mpich(), launch, 15, &srun).is_err());
    assert_eq!(check_world_size(&mpich(), Launch::Alone, 4, &srun), Ok(()));
}

#[test]
fn nonsense_is_an_error_and_the_guard_can_be_turned_off() {
    assert!(refused(&mpich(), "PMI_SIZE=many").contains("PMI_SIZE=many"));
    assert!(refused(&open_mpi(), "OMPI_COMM_WORLD_SIZE=0").contains("no number of ranks"));
    let off = environment("AFFLUX_IGNORE_LAUNCHER=1 PMI_SIZE=3");
    assert_eq!(decide(&Build::WithoutMpi, &off), Ok(Launch::Alone));
}

#[test]
fn families_are_told_by_their_version_strings() {
    let family = |version: &str| match Build::of_library(version) {
        Build::Mpi { family, .. } => family,
        Build::WithoutMpi => unreachable!(),
    };
    assert_eq!(family("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), Family::OpenMpi);
    assert_eq!(family("MPICH Version:\t4.0.2\nMPICH Release date: Thu Apr"), Family::Mpich);
    assert_eq!(family("Intel(R) MPI Library 2021.10 for Linux* OS"), Family::Mpich);
    assert_eq!(family("MVAPICH2 Version: 2.3.7"), Family::Mpich);
    assert_eq!(family("HyperMPI"), Family::Other);
}
