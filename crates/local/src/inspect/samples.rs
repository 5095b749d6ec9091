//! The Prometheus text format 0.0.4, read: as much of it as sidecars write. Pure. Must never fail:
//! a line that is something else is passed over.

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The metric, with `_bucket`, `_sum` or `_count` where it is a histogram.
    pub name: String,
    /// In the order in which they are written.
    pub labels: Vec<(String, String)>,
    /// Counts are whole.
    pub value: f64,
}

impl Sample {
    /// The value of that label; empty where there is none.
    #[must_use]
    pub fn label(&self, name: &str) -> &str {
        let mut labels = self.labels.iter();
        let found = labels.find(|(label, _)| label == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Every sample of a page, in its order.
#[must_use]
pub fn parse(page: &str) -> Vec<Sample> {
    page.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Sample> {
    let end = line.find([' ', '{'])?;
    let (name, mut rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while let Some((label, after)) = rest.split_once("=\"") {
            let (value, after) = quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = after.strip_prefix(',').unwrap_or(after);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
        }
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

/// Up to the closing quote, without escapes; and what comes after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_sidecar_writes() {
        let page = "# HELP a_total What.\n# TYPE a_total counter\n\
                    a_total{direction=\"outbound\",peer=\"x\\\"y\\\\z\\n\"} 12\n\
                    b_seconds_bucket{le=\"+Inf\"} 3\nb_seconds_sum 0.25\n";
        let samples = parse(page);
        let shown: Vec<_> = samples
            .iter()
            .map(|one| (one.name.as_str(), one.value))
            .collect();
        let expected = [
            ("a_total", 12.0),
            ("b_seconds_bucket", 3.0),
            ("b_seconds_sum", 0.25),
        ];
        assert_eq!(shown, expected);
        assert_eq!(samples[0].label("peer"), "x\"y\\z\n");
        assert_eq!(samples[0].label("direction"), "outbound");
        assert_eq!(samples[1].label("le"), "+Inf");
        assert_eq!(samples[1].label("none"), "");
    }

    #[test]
    fn passes_over_what_is_something_else() {
        for page in [
            "",
            "\n",
            "a",
            "a{",
            "a{b",
            "a{b=\"",
            "a{b=\"c\"} x",
            "{} 1",
            "a{b=\"c\\",
        ] {
            assert_eq!(parse(page), [], "{page:?}");
        }
    }
}
