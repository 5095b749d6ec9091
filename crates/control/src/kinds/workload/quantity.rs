//! The most of something that a process may use, as Kubernetes writes it: `500m`, `0.2`, `64Mi`.
//! Called by the Workload's reader. Must never round: what cannot be said exactly is refused.

use yaml::{Fault, Fields, Node, quote};

/// The most that a group of processes may use; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Thousandths of one processor.
    pub cpu_millis: Option<u64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
}

/// More processors than any machine has: a thousand. What is above is a slip of the pen.
const CPU_MILLIS_MAX: u64 = 1_000_000;
/// Less than any program needs to start, so that `memory: 64` is not taken for a plan.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// More memory than any machine has: a pebibyte.
const MEMORY_BYTES_MAX: u64 = 1 << 50;
/// Digits after the point that are read; more say less than a byte, or a thousandth.
const DECIMALS_MAX: usize = 15;

/// Letters after the number, and how many bytes they stand for.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
];

/// `resources`, of which there are limits only.
pub(super) fn read(node: &Node) -> Result<Limits, Fault> {
    let resources = Fields::open(node, "resources", &["limits"])?;
    let limits = resources.map("limits", |node| {
        let fields = Fields::open(node, "limits", &["cpu", "memory"])?;
        Ok(Limits {
            cpu_millis: fields.map("cpu", cpu)?,
            memory_bytes: fields.map("memory", memory)?,
        })
    })?;
    Ok(limits.unwrap_or_default())
}

fn cpu(node: &Node) -> Result<u64, Fault> {
    let word = node.text()?;
    let millis = match word.strip_suffix('m') {
        Some(number) => scaled(number, 1),
        None => scaled(word, 1000),
    };
    match millis {
        Some(millis) if (1..=CPU_MILLIS_MAX).contains(&millis) => Ok(millis),
        Some(_) => Err(node.fault(
            format!("{} is out of range", quote(word)),
            format!("from 1m to {} processors", CPU_MILLIS_MAX / 1000),
        )),
        None => Err(node.fault(
            format!("{} is not an amount of processor time", quote(word)),
            "write processors, or thousandths of one: 2, 0.5, 500m",
        )),
    }
}

fn memory(node: &Node) -> Result<u64, Fault> {
    let word = node.text()?;
    let end = word.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = word.split_at(end.unwrap_or(word.len()));
    let known = UNITS.iter().find(|(known, _)| *known == unit);
    match known.and_then(|(_, bytes)| scaled(number, *bytes)) {
        Some(bytes) if (MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&bytes) => Ok(bytes),
        Some(_) => Err(node.fault(
            format!("{} is out of range", quote(word)),
            "from 1Mi to 1024Ti; mind the unit: 64Mi are 64 × 1024 × 1024 bytes",
        )),
        None => Err(node.fault(
            format!("{} is not an amount of memory", quote(word)),
            "write a number and Ki, Mi, Gi, Ti, k, M, G or T: 64Mi, 1.5Gi",
        )),
    }
}

/// `number` × `unit`; `None` unless it is a number and the product a whole one.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let tens = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    let digits = whole.parse::<u64>().ok()?;
    let digits = u128::from(digits) * tens + decimals.parse::<u128>().ok()?;
    let product = digits.checked_mul(u128::from(unit))?;
    if product % tens != 0 {
        return None;
    }
    // What is too large for a u64 is out of every range.
    Some(u64::try_from(product / tens).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: PartialEq + std::fmt::Debug>(
        read: impl Fn(&Node) -> Result<T, Fault>,
        word: &str,
        wanted: Result<T, &str>,
    ) {
        let node = Node::read(word).unwrap();
        let read = read(&node).map_err(|fault| fault.message);
        assert_eq!(read, wanted.map_err(str::to_owned), "{word}");
    }

    #[test]
    fn processors_are_counted_in_thousandths() {
        for (word, millis) in [
            ("500m", 500),
            ("1m", 1),
            ("2", 2000),
            ("0.2", 200),
            ("1.250", 1250),
            ("0.5000000", 500),
            ("1000", 1_000_000),
        ] {
            check(cpu, word, Ok(millis));
        }
        for word in ["", "m", "-1", "1e3", "0.0005", "1.", ".5", "5 m", "1M", "½"] {
            let text = format!("\"{word}\"");
            assert!(cpu(&Node::read(&text).unwrap()).is_err(), "{word}");
        }
        check(cpu, "0", Err("`0` is out of range"));
        check(cpu, "1001", Err("`1001` is out of range"));
        check(
            cpu,
            "0.0005",
            Err("`0.0005` is not an amount of processor time"),
        );
    }

    #[test]
    fn memory_has_units_of_a_thousand_and_of_1024() {
        for (word, bytes) in [
            ("64Mi", 64 << 20),
            ("128M", 128_000_000),
            ("1Gi", 1 << 30),
            ("1.5Gi", 3 << 29),
            ("2097152", 2 << 20),
            ("2048Ki", 2 << 20),
            ("3000k", 3_000_000),
        ] {
            check(memory, word, Ok(bytes));
        }
        for word in ["64m", "64MB", "64 Mi", "Mi", "1.5", "-1Mi", "1e9", "0x10"] {
            let wanted = format!("{} is not an amount of memory", quote(word));
            check(memory, word, Err(&wanted));
        }
        for word in ["0", "64", "1023Ki", "2000Ti", "99999999999999999Ti"] {
            let wanted = format!("{} is out of range", quote(word));
            check(memory, word, Err(&wanted));
        }
    }
}
