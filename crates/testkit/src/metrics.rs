//! Reads Prometheus text, as far as tests need it: a sum over the samples that match.
//! Used through `ProxyProcess`.

/// The samples of one scrape.
#[derive(Debug, Clone, Default)]
pub struct Scrape {
    samples: Vec<Sample>,
}

#[derive(Debug, Clone)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Scrape {
    /// Reads the text of a scrape.
    ///
    /// # Panics
    /// On a line that is neither a comment nor a sample.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let sample = |line| sample(line).unwrap_or_else(|| panic!("not a sample: {line}"));
        Self {
            samples: lines.map(sample).collect(),
        }
    }

    /// The sum over all samples of this name that have these labels, and perhaps others;
    /// 0 if there is none.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &&Sample| {
            sample.name == name
                && labels
                    .iter()
                    .all(|(key, value)| sample.labels.iter().any(|(k, v)| k == key && v == value))
        };
        self.samples
            .iter()
            .filter(has)
            .fold(0.0, |sum, sample| sum + sample.value)
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    Some(Sample {
        name: name.to_owned(),
        labels: pairs(labels)?,
        value: value.parse().ok()?,
    })
}

fn pairs(mut text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    while !text.is_empty() {
        let (key, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        pairs.push((key.to_owned(), value));
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(pairs)
}

/// A value up to its closing quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP x y
# TYPE x counter
x{a="1",b="q\"},\\"} 2
x{a="1",b="r"} 3
x{a="2",b="r"} 4.5
y 7
z_bucket{le="+Inf"} 1
"#;

    fn check(name: &str, labels: &[(&str, &str)], expected: f64) {
        let sum = Scrape::parse(TEXT).sum(name, labels);
        assert_eq!(sum.to_bits(), expected.to_bits(), "{name}{labels:?}");
    }

    #[test]
    fn sums_over_matching_labels() {
        check("x", &[], 9.5);
        check("x", &[("a", "1")], 5.0);
        check("x", &[("b", "q\"},\\")], 2.0);
        check("y", &[], 7.0);
        check("z_bucket", &[("le", "+Inf")], 1.0);
        check("absent", &[], 0.0);
    }
}
