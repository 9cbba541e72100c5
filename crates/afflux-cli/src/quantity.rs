//! Numbers and units as people read them: SI prefixes on axes, superscripts in units, bytes and seconds in words.

/// What an axis shows.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Name of the quantity.
    pub name: String,
    /// Units in UDUNITS notation; empty where there are none.
    pub units: String,
}

/// How an axis is drawn: values times `factor` under `label`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// From the data to the axis.
    pub factor: f64,
    /// Name and units.
    pub label: String,
}

const PREFIXES: [(i32, &str); 11] = [
    (-15, "f"),
    (-12, "p"),
    (-9, "n"),
    (-6, "µ"),
    (-3, "m"),
    (0, ""),
    (3, "k"),
    (6, "M"),
    (9, "G"),
    (12, "T"),
    (15, "P"),
];

impl Axis {
    /// An axis by name and units.
    #[must_use]
    pub fn new(name: &str, units: &str) -> Self {
        Self { name: name.to_owned(), units: units.to_owned() }
    }

    /// Chooses a power of a thousand that leaves readable ticks: a prefix where the units are one symbol that takes it, else a
    /// factor written out.
    #[must_use]
    pub fn scale(&self, (low, high): (f64, f64)) -> Scale {
        let largest = low.abs().max(high.abs());
        let exponent = if largest > 0.0 && largest.is_finite() { thousands(largest) } else { 0 };
        let units = pretty_units(&self.units);
        let factor = 10.0_f64.powi(-exponent);
        let prefix = PREFIXES.iter().find(|(power, _)| *power == exponent);
        let label = match (exponent, units.as_str()) {
            (0, "") => self.name.clone(),
            (0, units) => format!("{} ({units})", self.name),
            (_, units @ ("s" | "Hz" | "V" | "A" | "m" | "Pa" | "W" | "T")) if prefix.is_some() => {
                format!("{} ({}{units})", self.name, prefix.map_or("", |(_, symbol)| symbol))
            }
            (_, "") => format!("{} (×10{})", self.name, superscript(&exponent.to_string())),
            (_, units) => format!("{} (10{} {units})", self.name, superscript(&exponent.to_string())),
        };
        Scale { factor, label }
    }
}

/// The multiple of 3 at or below the number's decimal exponent; numbers from 0.1 to under 10,000 stay as they are.
fn thousands(largest: f64) -> i32 {
    if (0.1..10_000.0).contains(&largest) {
        return 0;
    }
    // The exponent of a finite double fits easily.
    let exponent: i32 = format!("{largest:e}").split_once('e').and_then(|(_, digits)| digits.parse().ok()).unwrap_or(0);
    exponent.div_euclid(3) * 3
}

/// `V m-1` as `V m⁻¹`.
#[must_use]
pub fn pretty_units(units: &str) -> String {
    let word = |word: &str| match word.find(|c: char| c == '-' || c.is_ascii_digit()) {
        Some(at) if at > 0 && word[at..].trim_start_matches('-').chars().all(|c| c.is_ascii_digit()) => {
            format!("{}{}", &word[..at], superscript(&word[at..]))
        }
        _ => word.to_owned(),
    };
    units.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn superscript(digits: &str) -> String {
    let raised = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0' => '⁰',
        '4'..='9' => char::from_u32('⁴' as u32 + (c as u32 - '4' as u32)).unwrap_or(c),
        other => other,
    };
    digits.chars().map(raised).collect()
}

/// Removes the zeros that end a decimal fraction.
#[must_use]
pub fn trim_zeros(number: &str) -> String {
    let trimmed = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    if trimmed == "-0" { "0".to_owned() } else { trimmed.to_owned() }
}

/// `11468800` as `11.5 MB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    scaled(count as f64, "B")
}

/// `2.5e8` as `250 MB/s`.
#[must_use]
pub fn bandwidth(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, "B/s")
}

/// `0.0123` as `12.3 ms`.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    scaled(seconds, "s")
}

/// Three significant digits with a prefix.
fn scaled(value: f64, units: &str) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value} {units}");
    }
    let exponent: i32 = format!("{value:.2e}").split_once('e').and_then(|(_, digits)| digits.parse().ok()).unwrap_or(0);
    let power = (exponent.div_euclid(3) * 3).clamp(-15, 15);
    let prefix = PREFIXES.iter().find(|(candidate, _)| *candidate == power).map_or("", |(_, symbol)| symbol);
    let decimals = usize::try_from(2 - (exponent - power)).unwrap_or(0);
    format!("{} {prefix}{units}", trim_zeros(&format!("{:.decimals$}", value * 10.0_f64.powi(-power))))
}

/// `1234567` as `1,234,567`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 checkpoint`, `1,234 checkpoints`.
#[must_use]
pub fn count_of(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_take_prefixes_or_factors() {
        let label = |name: &str, units: &str, high| {
            let axis = Axis { name: name.into(), units: units.into() };
            let scale = axis.scale((0.0, high));
            (scale.label, scale.factor)
        };
        assert_eq!(label("time", "s", 6.7e-10), ("time (ps)".into(), 1e12));
        assert_eq!(label("frequency", "Hz", 2.5e9), ("frequency (GHz)".into(), 10.0_f64.powi(-9)));
        assert_eq!(label("Ez", "V m-1", 2.0), ("Ez (V m⁻¹)".into(), 1.0));
        assert_eq!(label("Ez", "V m-1", 2.0e-4).0, "Ez (10⁻⁶ V m⁻¹)");
        assert_eq!(label("v", "", 2.0e7).0, "v (×10⁶)");
        assert_eq!(label("v", "", 0.0).0, "v");
    }

    #[test]
    fn words_for_people() {
        assert_eq!(bytes(11_468_800), "11.5 MB");
        assert_eq!(bytes(999_999), "1 MB");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(42.0), "42 s");
        assert_eq!(bandwidth(2.5e8), "250 MB/s");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        assert_eq!(pretty_units("kg m2 s-2"), "kg m² s⁻²");
        assert_eq!(pretty_units("seconds since 1970-01-01"), "seconds since 1970-01-01");
        assert_eq!(trim_zeros("-0.00"), "0");
    }
}
