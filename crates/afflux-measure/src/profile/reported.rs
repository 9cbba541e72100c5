//! The processor time that programs report of themselves.
//!
//! Gaussian ends with "Job cpu time: 0 days 3 hours 44 minutes 31.0 seconds."; the source subtracts it from the elapsed time.
//! NWChem says "Total times  cpu:  12.3s  wall: 45.6s". Both are sums over what the program itself counts.

use super::result::Reported;

/// Finds what a program's output says; `None` where it says nothing we know.
#[must_use]
pub fn find(output: &str, elapsed_seconds: f64) -> Option<Reported> {
    ["Gaussian", "NWChem"].into_iter().find_map(|program| {
        let read = if program == "NWChem" { nwchem } else { gaussian };
        let mut times = output.lines().filter_map(read).peekable();
        times.peek()?;
        let cpu_seconds: f64 = times.sum();
        Some(Reported { program: program.to_owned(), cpu_seconds, idle_seconds: elapsed_seconds - cpu_seconds })
    })
}

/// ` Job cpu time:       0 days  3 hours 44 minutes 31.0 seconds.`
fn gaussian(line: &str) -> Option<f64> {
    let mut words = line.trim_start().strip_prefix("Job cpu time:")?.split_ascii_whitespace();
    let mut total = 0.0;
    while let (Some(number), Some(unit)) = (words.next(), words.next()) {
        let seconds = match unit.trim_end_matches('.').trim_end_matches('s') {
            "day" => 86_400.0,
            "hour" => 3_600.0,
            "minute" => 60.0,
            "second" => 1.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * seconds;
    }
    Some(total)
}

/// ` Total times  cpu:        3.1s     wall:        3.3s`
fn nwchem(line: &str) -> Option<f64> {
    let rest = line.trim_start().strip_prefix("Total times")?.trim_start().strip_prefix("cpu:")?;
    rest.split_ascii_whitespace().next()?.strip_suffix('s')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_programs_are_heard() {
        let text = " Job cpu time:       0 days  4 hours 50 minutes  0.5 seconds.\n Normal termination\n Job cpu time:  1 days 0 hours 0 minutes 1.0 seconds.\n";
        let found = find(text, 110_000.0).unwrap();
        assert_eq!((found.program.as_str(), found.cpu_seconds), ("Gaussian", 17_400.5 + 86_401.0));
        assert_eq!(found.idle_seconds, 110_000.0 - 103_801.5);
        let found = find("\n Total times  cpu:        3.1s     wall:        3.3s\n", 4.0).unwrap();
        assert_eq!((found.program.as_str(), found.cpu_seconds), ("NWChem", 3.1));
        assert_eq!(find("all is well\n", 1.0), None);
    }

    proptest! {
        #[test]
        fn no_output_makes_it_panic(text in "(?s).{0,200}") {
            let _ = find(&text, 1.0);
            let _ = find(&format!("Job cpu time: {text}\nTotal times cpu: {text}"), 1.0);
        }
    }
}
