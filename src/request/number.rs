//! Numbers as people write them: `8,192`, `8k`, `4e3`, `6.7 B`, `1%`.

/// The digits without commas between thousands and without underscores; `None` if a comma is elsewhere.
fn ungrouped(text: &str) -> Option<String> {
    let (whole, rest) = text.split_at(text.find(['.', 'e', 'E']).unwrap_or(text.len()));
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let is_grouped = groups.clone().next().is_some();
    let in_order = !is_grouped || (1..=3).contains(&first.len());
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '_');
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let in_order = in_order && groups.all(|group| group.len() == 3) && is_number;
    let digits = format!("{}{rest}", whole.replace(',', "")).replace('_', "");
    (in_order && text.chars().all(|c| plain(c) || c == ',')).then_some(digits)
}

/// Units of counts that are no sizes.
pub const DECIMAL: [(&str, f64); 4] = [("k", 1e3), ("m", 1e6), ("b", 1e9), ("t", 1e12)];

/// A number of at least 0 with one of these units behind it, each with its factor.
pub fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let unit = units.iter().find(|(unit, _)| lower.ends_with(unit));
    let (digits, factor) = unit.map_or((text, 1.0), |(unit, factor)| {
        (text[..text.len() - unit.len()].trim_end(), *factor)
    });
    let number: f64 = ungrouped(digits)?.parse().ok()?;
    Some(number * factor)
}

/// A size: a whole number, where `k` is 1024 and `m` is 1024 times that.
pub fn size(text: &str) -> Option<u64> {
    const KIBI: f64 = 1024.0;
    let number = with_unit(text, &[("k", KIBI), ("m", KIBI * KIBI)])?;
    let is_whole = number.fract() == 0.0 && number <= (1_u64 << 53) as f64;
    is_whole.then_some(number as u64)
}

/// A fraction, as such or in percent.
pub fn fraction(text: &str) -> Option<f64> {
    with_unit(text, &[("%", 0.01)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, wanted) in [
            ("8192", 8192),
            ("8,192", 8192),
            ("8_192", 8192),
            ("8k", 8192),
            ("8 K", 8192),
            ("1.5k", 1536),
            ("1m", 1_048_576),
            ("4e3", 4000),
            ("1,048,576", 1_048_576),
        ] {
            assert_eq!(size(text), Some(wanted), "{text}");
        }
        for text in [
            "", "k", "8,19", ",192", "1234,567", "8,1,92", "1.5", "-8", "+8", "inf", "nan", "0x8", "8kk", "1e400",
            "8b", "8 192",
        ] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn fractions_may_be_in_percent() {
        assert_eq!(fraction("1%"), Some(0.01));
        assert_eq!(fraction("2.5 %"), Some(0.025));
        assert_eq!(fraction("0.1"), Some(0.1));
        assert_eq!(fraction("%"), None);
        assert_eq!(fraction("-1%"), None);
    }
}
