//! Numbers as a reader wants them: as many digits as carry meaning, thousands grouped. Pure.

/// Three significant figures down to a thousandth, no exponent: `0.412`, `1.23`, `12.3`, `1,234`.
pub(crate) fn significant(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 100.0 || size == 0.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.1 => 3,
        _ if size >= 0.01 => 4,
        _ => 5,
    };
    fixed(value, decimals)
}

/// A number with this many decimals, thousands grouped.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or(("", text.as_str()), |rest| ("−", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{fraction}")
}

/// A whole number, thousands grouped.
pub(crate) fn grouped(value: f64) -> String {
    fixed(value, 0)
}

/// Both ends of an interval: `0.41 – 0.52`.
pub(crate) fn range((low, high): (f64, f64), words: fn(f64) -> String) -> String {
    format!("{} – {}", words(low), words(high))
}

/// A difference with its sign: `+0.21`, `−1.4`.
pub(crate) fn signed(value: f64) -> String {
    let text = significant(value);
    if value > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_carry_meaning() {
        let cases = [
            (0.0, "0"),
            (0.41234, "0.412"),
            (0.012_34, "0.0123"),
            (1.2345, "1.23"),
            (12.345, "12.3"),
            (123.45, "123"),
            (1_234_567.0, "1,234,567"),
            (-3.21, "−3.21"),
        ];
        for (value, expected) in cases {
            assert_eq!(significant(value), expected);
        }
        assert_eq!(signed(0.25), "+0.250");
        assert_eq!(signed(-0.25), "−0.250");
    }
}
