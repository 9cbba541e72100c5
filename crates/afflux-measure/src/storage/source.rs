//! The measurements of source 003 (Gaussian 03 on six scratch disks) and the model fitted to its large job.
//!
//! The source itself draws no model. Its large job reads a scratch file of 40 GB more often than memory can hold it; if all that
//! waits is reading, idle time is the volume read over the disk's bandwidth, less what caching and read-ahead hide. Three disks
//! carry XFS, so there are three points for two unknowns: a hypothesis, with one degree of freedom left for its residuals.

use crate::report::{Cell, Table};
use serde::Serialize;

/// A row of the source's first table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct JobRow {
    /// Gaussian's test, or `large`.
    pub job: &'static str,
    /// Scratch disk.
    pub disk: &'static str,
    /// File system.
    pub file_system: &'static str,
    /// User time.
    pub user_seconds: f64,
    /// System time.
    pub system_seconds: f64,
    /// What Gaussian reports, or near it.
    pub cpu_seconds: f64,
    /// Elapsed time.
    pub elapsed_seconds: f64,
    /// Elapsed less Gaussian's.
    pub idle_seconds: f64,
}

/// A row of its second table: a file of 20 GB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TransferRow {
    /// Disk.
    pub disk: &'static str,
    /// File system.
    pub file_system: &'static str,
    /// `write` or `read`.
    pub direction: &'static str,
    /// Bandwidth.
    pub megabytes_per_second: f64,
    /// System time.
    pub system_seconds: f64,
    /// Elapsed time.
    pub elapsed_seconds: f64,
}

/// Scratch of the large job.
pub const LARGE_SCRATCH_BYTES: f64 = 40e9;

const fn job(job: &'static str, disk: &'static str, file_system: &'static str, figures: [f64; 5]) -> JobRow {
    let [user_seconds, system_seconds, cpu_seconds, elapsed_seconds, idle_seconds] = figures;
    JobRow { job, disk, file_system, user_seconds, system_seconds, cpu_seconds, elapsed_seconds, idle_seconds }
}

const fn transfer(
    disk: &'static str,
    file_system: &'static str,
    direction: &'static str,
    figures: [f64; 3],
) -> TransferRow {
    let [megabytes_per_second, system_seconds, elapsed_seconds] = figures;
    TransferRow { disk, file_system, direction, megabytes_per_second, system_seconds, elapsed_seconds }
}

/// The jobs' rows that the source has figures for.
pub const JOBS: [JobRow; 28] = [
    job("test415", "SATA", "ext2", [832.0, 185.0, 1016.0, 1018.0, 2.0]),
    job("test415", "SATA", "XFS", [832.0, 47.0, 878.0, 881.0, 3.0]),
    job("test415", "SAS", "ext2", [834.0, 214.0, 1047.0, 1068.0, 21.0]),
    job("test415", "SAS", "XFS", [835.0, 50.0, 884.0, 916.0, 32.0]),
    job("test415", "SAS RAID0", "ext2", [837.0, 390.0, 1226.0, 1232.0, 6.0]),
    job("test415", "SAS RAID0", "XFS", [840.0, 50.0, 890.0, 892.0, 2.0]),
    job("test567", "SATA", "ext2", [2808.0, 354.0, 3161.0, 3168.0, 7.0]),
    job("test567", "SATA", "XFS", [2820.0, 97.0, 2915.0, 2968.0, 53.0]),
    job("test567", "SAS", "ext2", [2822.0, 411.0, 3231.0, 3242.0, 11.0]),
    job("test567", "SAS", "XFS", [2815.0, 99.0, 2914.0, 3011.0, 97.0]),
    job("test567", "SAS RAID0", "ext2", [2834.0, 742.0, 3575.0, 3583.0, 8.0]),
    job("test567", "SAS RAID0", "XFS", [2840.0, 101.0, 2940.0, 2977.0, 37.0]),
    job("test637", "SATA", "ext2", [1696.0, 475.0, 2170.0, 2236.0, 66.0]),
    job("test637", "SATA", "XFS", [1688.0, 66.0, 1753.0, 1870.0, 117.0]),
    job("test637", "SAS", "ext2", [1718.0, 561.0, 2278.0, 2321.0, 43.0]),
    job("test637", "SAS", "XFS", [1683.0, 65.0, 1747.0, 1832.0, 85.0]),
    job("test637", "SAS RAID0", "ext2", [1724.0, 1085.0, 2808.0, 2844.0, 36.0]),
    job("test637", "SAS RAID0", "XFS", [1654.0, 69.0, 1721.0, 1770.0, 49.0]),
    job("test653", "SATA", "ext2", [688.0, 426.0, 1112.0, 1116.0, 4.0]),
    job("test653", "SATA", "XFS", [688.0, 52.0, 738.0, 845.0, 107.0]),
    job("test653", "SAS", "ext2", [690.0, 505.0, 1193.0, 1197.0, 4.0]),
    job("test653", "SAS", "XFS", [689.0, 54.0, 741.0, 765.0, 24.0]),
    job("test653", "SAS RAID0", "XFS", [691.0, 53.0, 743.0, 767.0, 24.0]),
    job("large", "SATA", "ext2", [13_471.0, 3931.0, 17_400.0, 28_127.0, 10_727.0]),
    job("large", "SATA", "XFS", [13_474.0, 2164.0, 15_637.0, 24_851.0, 9214.0]),
    job("large", "SAS", "XFS", [13_539.0, 2218.0, 15_756.0, 21_671.0, 5915.0]),
    job("large", "SAS RAID0", "ext2", [13_578.0, 6672.0, 20_248.0, 23_313.0, 3065.0]),
    job("large", "SAS RAID0", "XFS", [13_576.0, 2285.0, 15_859.0, 18_455.0, 2596.0]),
];

/// The transfers' rows that the source has figures for.
pub const TRANSFERS: [TransferRow; 10] = [
    transfer("SATA", "ext2", "write", [52.0, 23.0, 384.0]),
    transfer("SATA", "ext2", "read", [59.0, 16.0, 337.0]),
    transfer("SATA", "XFS", "write", [68.0, 20.0, 295.0]),
    transfer("SATA", "XFS", "read", [59.0, 17.0, 341.0]),
    transfer("SAS", "XFS", "write", [87.0, 23.0, 230.0]),
    transfer("SAS", "XFS", "read", [83.0, 16.0, 240.0]),
    transfer("SAS RAID0", "ext2", "write", [137.0, 21.0, 146.0]),
    transfer("SAS RAID0", "ext2", "read", [160.0, 17.0, 125.0]),
    transfer("SAS RAID0", "XFS", "write", [172.0, 22.0, 116.0]),
    transfer("SAS RAID0", "XFS", "read", [165.0, 16.0, 121.0]),
];

/// A point of the fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FitPoint {
    /// Disk.
    pub disk: String,
    /// File system.
    pub file_system: String,
    /// Bandwidth of reading.
    pub read_bytes_per_second: f64,
    /// Idle time as measured.
    pub idle_seconds: f64,
    /// By the model.
    pub fitted_idle_seconds: f64,
    /// Measured less fitted, over measured.
    pub residual_share: f64,
}

/// idle = `intercept_seconds` + `volume_bytes` / bandwidth, by least squares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Which rows.
    pub rows: String,
    /// What caching and read-ahead hide, negative where they do.
    pub intercept_seconds: f64,
    /// Bytes that the job waited for.
    pub volume_bytes: f64,
    /// That, over the scratch file's length.
    pub passes: f64,
    /// Points and their residuals.
    pub points: Vec<FitPoint>,
}

/// The fit over the large job's rows with one of these file systems.
#[must_use]
pub fn fit(file_systems: &[&str]) -> Option<Fit> {
    let rows = JOBS.iter().filter(|row| row.job == "large" && file_systems.contains(&row.file_system));
    let measured: Vec<(&JobRow, f64)> = rows
        .filter_map(|row| {
            let same = |read: &&TransferRow| {
                read.direction == "read" && (read.disk, read.file_system) == (row.disk, row.file_system)
            };
            Some((row, TRANSFERS.iter().find(same)?.megabytes_per_second * 1e6))
        })
        .collect();
    let line: Vec<(f64, f64)> = measured.iter().map(|(row, bandwidth)| (bandwidth.recip(), row.idle_seconds)).collect();
    let (intercept_seconds, volume_bytes) = least_squares(&line)?;
    let points = measured.iter().map(|(row, read_bytes_per_second)| {
        let fitted_idle_seconds = intercept_seconds + volume_bytes / read_bytes_per_second;
        FitPoint {
            disk: row.disk.to_owned(),
            file_system: row.file_system.to_owned(),
            read_bytes_per_second: *read_bytes_per_second,
            idle_seconds: row.idle_seconds,
            fitted_idle_seconds,
            residual_share: (row.idle_seconds - fitted_idle_seconds) / row.idle_seconds,
        }
    });
    Some(Fit {
        rows: file_systems.join(" and "),
        intercept_seconds,
        volume_bytes,
        passes: volume_bytes / LARGE_SCRATCH_BYTES,
        points: points.collect(),
    })
}

/// Intercept and slope of the line nearest the points (x, y); `None` for fewer than two different x.
fn least_squares(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let slope = covariance / variance;
    slope.is_finite().then_some((y_mean - slope * x_mean, slope))
}

/// The model in words and a table.
#[must_use]
pub fn fit_table(fit: &Fit) -> Table {
    let mut table = Table::new(format!(
        "Idle time of the large job ({}): {:.0} s + {:.0} GB / bandwidth, {:.1} passes over 40 GB",
        fit.rows,
        fit.intercept_seconds,
        fit.volume_bytes * 1e-9,
        fit.passes
    ))
    .words("disk")
    .words("file system")
    .numbers("read (MB/s)")
    .numbers("idle (s)")
    .numbers("fitted (s)")
    .numbers("residual (%)");
    for point in &fit.points {
        table.row(vec![
            Cell::from(point.disk.as_str()),
            Cell::from(point.file_system.as_str()),
            Cell::from(format!("{:.0}", point.read_bytes_per_second * 1e-6)),
            Cell::from(format!("{:.0}", point.idle_seconds)),
            Cell::from(format!("{:.0}", point.fitted_idle_seconds)),
            Cell::from(format!("{:+.1}", 100.0 * point.residual_share)),
        ]);
    }
    table.note(format!(
        "{} points, two unknowns: a hypothesis. The negative intercept stands for what the page cache and read-ahead hide.",
        fit.points.len()
    ));
    table
}

/// The source's first table.
#[must_use]
pub fn jobs_table() -> Table {
    let mut table = Table::new("Gaussian 03 on six scratch disks, as the source gives it (2007)")
        .words("job")
        .words("disk")
        .words("file system")
        .numbers("user (s)")
        .numbers("system (s)")
        .numbers("cpu (s)")
        .numbers("elapsed (s)")
        .numbers("idle (s)");
    for row in JOBS {
        let figures = [row.user_seconds, row.system_seconds, row.cpu_seconds, row.elapsed_seconds, row.idle_seconds];
        let names = [row.job, row.disk, row.file_system].into_iter().map(Cell::from);
        table.row(names.chain(figures.iter().map(|figure| Cell::from(format!("{figure:.0}")))).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reading over, so that no figure is mistyped: idle is elapsed less processor time, that is user and system time to a few
    /// seconds, and 20 GB over the elapsed time is the bandwidth.
    #[test]
    fn the_sources_figures_agree_with_each_other() {
        for row in JOBS {
            assert_eq!(row.elapsed_seconds - row.cpu_seconds, row.idle_seconds, "{row:?}");
            assert!((row.user_seconds + row.system_seconds - row.cpu_seconds).abs() <= 3.0, "{row:?}");
        }
        for row in TRANSFERS {
            assert!((20_000.0 / row.elapsed_seconds - row.megabytes_per_second).abs() <= 1.0, "{row:?}");
        }
    }

    /// As derived when the source was read: 606 GB, about 15 passes, residuals of four percent.
    #[test]
    fn the_large_job_reads_its_scratch_about_fifteen_times() {
        let fit = fit(&["XFS"]).unwrap();
        assert!((fit.intercept_seconds + 1172.0).abs() < 10.0, "{fit:?}");
        assert!((fit.volume_bytes - 606e9).abs() < 3e9, "{fit:?}");
        assert!((14.5..15.5).contains(&fit.passes), "{fit:?}");
        assert!(fit.points.len() == 3 && fit.points.iter().all(|point| point.residual_share.abs() < 0.05), "{fit:?}");
        assert!(fit_table(&fit).text().contains("15.") || fit_table(&fit).text().contains("15 passes"));
        assert_eq!(super::fit(&["ext2", "XFS"]).unwrap().points.len(), 5);
        assert_eq!(super::fit(&["btrfs"]), None);
        assert!(jobs_table().text().lines().count() > 28);
    }

    proptest! {
        #[test]
        fn a_line_is_found_again(intercept in -1e3..1e3_f64, slope in -1e3..1e3_f64, xs in proptest::collection::vec(-10.0..10.0_f64, 3..8)) {
            let points: Vec<(f64, f64)> = xs.iter().map(|x| (*x, intercept + slope * x)).collect();
            let spread = xs.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b)) - xs.iter().fold(f64::INFINITY, |a, b| a.min(*b));
            prop_assume!(spread > 0.1);
            let (found_intercept, found_slope) = least_squares(&points).unwrap();
            prop_assert!((found_intercept - intercept).abs() < 1e-6 && (found_slope - slope).abs() < 1e-6);
        }
    }
}
