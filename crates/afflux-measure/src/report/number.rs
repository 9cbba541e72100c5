//! Numbers as people read them.

/// Three significant digits without an exponent as long as that is readable: `0.0123`, `1.23`, `123`, `12,300`.
#[must_use]
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return value.to_string();
    }
    let rounded = format!("{value:.2e}");
    let exponent: i32 = rounded.split_once('e').and_then(|(_, digits)| digits.parse().ok()).unwrap_or(0);
    match exponent {
        -4..=2 => {
            let decimals = usize::try_from(2 - exponent).unwrap_or(0);
            format!("{value:.decimals$}")
        }
        3..=14 => {
            // Read back from its three digits, so that what cannot be known is shown as zeros.
            let whole = rounded.parse::<f64>().unwrap_or(value);
            let digits = grouped(&format!("{:.0}", whole.abs()));
            if value < 0.0 { format!("-{digits}") } else { digits }
        }
        _ => rounded,
    }
}

/// `1234567` as `1,234,567`.
#[must_use]
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A length of memory in binary units: `64 KiB`, `1.5 MiB`, `100 B`.
#[must_use]
pub fn bytes(length: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| length >= *unit) {
        Some((unit, name)) if length.is_multiple_of(unit) => format!("{} {name}", length / unit),
        Some((unit, name)) => format!("{} {name}", trimmed(&significant(length as f64 / unit as f64))),
        None => format!("{length} B"),
    }
}

/// A time with its unit: `12.3 us`, `4.56 s`.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds.abs() >= *unit).unwrap_or((1.0, "s"));
    format!("{} {name}", significant(seconds / unit))
}

/// Without the zeros that end a decimal fraction.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_no_more() {
        let cases = [
            (0.0, "0"),
            (1.0, "1.00"),
            (9.999, "10.0"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.0, "1,230"),
            (-98_765_432.0, "-98,800,000"),
            (0.001_234, "0.00123"),
            (1.5e-9, "1.50e-9"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn units_of_length_and_time() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(1 << 26), "64 MiB");
        assert_eq!(seconds(1.23e-5), "12.3 us");
        assert_eq!(seconds(0.0), "0 s");
        assert_eq!(seconds(90.0), "90.0 s");
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
