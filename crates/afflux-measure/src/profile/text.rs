//! A profile as people read it.

use super::result::Profile;
use std::fmt::Write as _;

impl Profile {
    /// The profile in words, some twenty lines.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |label: &str, words: String| {
            let _ = writeln!(text, "{label:<12}{words}");
        };
        line("job", format!("{}, {}", self.command.join(" "), self.ended.words()));
        let percent = |part: f64| if self.elapsed_seconds > 0.0 { 100.0 * part / self.elapsed_seconds } else { 0.0 };
        line(
            "time (s)",
            format!(
                "user {:.2}, system {:.2}, cpu {:.2}, elapsed {:.2}, idle {:.2} ({:.0} % of elapsed)",
                self.user_seconds,
                self.system_seconds,
                self.cpu_seconds,
                self.elapsed_seconds,
                self.idle_seconds,
                percent(self.idle_seconds)
            ),
        );
        let idle = &self.idle;
        line("idle (s)", format!("device {:.2} [{}]", idle.device_seconds, idle.device_source));
        line("", format!("run queue {:.2} [{}]", idle.run_queue_seconds, idle.run_queue_source));
        line("", format!("other {:.2}", idle.other_seconds));
        if let Some(reported) = &self.reported {
            line(
                "reported",
                format!(
                    "{} counts {:.2} s of processor time; idle by that {:.2} s",
                    reported.program, reported.cpu_seconds, reported.idle_seconds
                ),
            );
        }
        for words in self.io_lines() {
            line("i/o", words);
        }
        line(
            "memory (MB)",
            format!(
                "peak {:.1} (all processes, sampled), largest process {:.1}",
                self.peak_memory_bytes as f64 * 1e-6,
                self.largest_process_bytes as f64 * 1e-6
            ),
        );
        let processes = &self.processes;
        line(
            "processes",
            format!(
                "{} seen, {} at once, {} threads at once; {} switches by choice, {} forced, {} major faults",
                processes.seen,
                processes.most_at_once,
                processes.threads_most_at_once,
                self.voluntary_switches,
                self.involuntary_switches,
                self.major_faults
            ),
        );
        line(
            "profiler",
            format!(
                "{} samples, {:.3} s at most between; {:.3} s of its own processor time ({:.2} % of elapsed)",
                self.samples,
                self.interval_seconds,
                self.profiler_cpu_seconds,
                percent(self.profiler_cpu_seconds)
            ),
        );
        for note in &self.notes {
            line("note", note.clone());
        }
        text
    }

    fn io_lines(&self) -> Vec<String> {
        let megabytes = |bytes: u64| bytes as f64 * 1e-6;
        let io = &self.io;
        let mut lines = vec![
            format!(
                "read {:.1} MB in {} calls, written {:.1} MB in {} calls [/proc/PID/io]",
                megabytes(io.read_bytes),
                io.read_calls,
                megabytes(io.written_bytes),
                io.write_calls
            ),
            format!(
                "from devices {:.1} MB, to devices {:.1} MB, {:.1} MB of it dropped before it was written",
                megabytes(io.device_read_bytes),
                megabytes(io.device_written_bytes),
                megabytes(io.cancelled_write_bytes)
            ),
        ];
        for place in &self.file_systems {
            let mut words = format!(
                "  {} on {}: read {:.1} MB in {} calls, written {:.1} MB in {} calls",
                place.file_system.kind,
                place.file_system.mount_point,
                megabytes(place.read_bytes),
                place.read_calls,
                megabytes(place.written_bytes),
                place.write_calls
            );
            if let Some(device) = &place.device {
                let _ = write!(
                    words,
                    "; its device: read {:.1} MB in {} requests, written {:.1} MB in {}, busy {:.2} s",
                    megabytes(device.read_bytes),
                    device.read_requests,
                    megabytes(device.written_bytes),
                    device.write_requests,
                    device.busy_seconds
                );
            }
            lines.push(words);
        }
        lines.push(format!("  [{}]", self.file_systems_source));
        lines
    }
}
