//! Reads Markdown just well enough to check it: headings, links and code spans, each with its line.
//! Fenced blocks are passed over.

/// One document's parts, lines counted from 1.
#[derive(Debug, Default)]
pub struct Markdown<'a> {
    /// Anchors of the headings, as they are made from their texts.
    pub anchors: Vec<String>,
    /// Targets of inline links.
    pub links: Vec<(usize, &'a str)>,
    /// Insides of code spans.
    pub spans: Vec<(usize, &'a str)>,
}

impl<'a> Markdown<'a> {
    /// Reads `text`.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        let mut markdown = Self::default();
        let mut is_fenced = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            } else if !is_fenced {
                markdown.read_line(index + 1, line);
            }
        }
        markdown
    }

    fn read_line(&mut self, number: usize, line: &'a str) {
        if let Some(heading) = line.strip_prefix('#') {
            self.anchors.push(anchor(heading.trim_start_matches('#')));
        }
        // Between back ticks: every second piece is inside.
        for (index, piece) in line.split('`').enumerate() {
            if index % 2 == 1 {
                self.spans.push((number, piece));
            }
        }
        self.links
            .extend(links(line).map(|target| (number, target)));
    }
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, mark)| {
        let target = &line[at + mark.len()..];
        target.find(')').map(|end| &target[..end])
    })
}

/// Lower case, punctuation dropped, spaces to hyphens.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| {
        if c == ' ' {
            '-'
        } else {
            c.to_ascii_lowercase()
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_headings_links_and_spans_outside_fences() {
        let text = "# A `b`: c\n[x](y.md#z) and `d e`\n```\n[not](this) `nor this`\n```\n";
        let markdown = Markdown::new(text);
        assert_eq!(markdown.anchors, ["a-b-c"]);
        assert_eq!(markdown.links, [(2, "y.md#z")]);
        assert_eq!(markdown.spans, [(1, "b"), (2, "d e")]);
    }
}
