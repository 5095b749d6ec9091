//! Reads Rust source just well enough to count it: comments and the insides of strings are
//! blanked, items marked `#[cfg(test)]` are found, and every function's extent. No syntax tree.

use std::ops::Range;

/// Source whose comments are blanks and whose string contents are quotes, line for line.
#[derive(Debug)]
pub struct Source {
    /// Invariant: as many lines as the original.
    pub masked: String,
    /// Line indices (from 0) that belong to items marked `#[cfg(test)]`.
    pub test_lines: Vec<Range<usize>>,
}

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Lines of its body that hold code.
    pub code_lines: usize,
}

impl Source {
    /// Reads `text`; anything that is not Rust gives nonsense, never a panic.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let masked = Mask::new(text).run();
        let test_lines = find_test_items(&masked);
        Self { masked, test_lines }
    }

    /// Lines that hold code, test items left out.
    #[must_use]
    pub fn code_lines(&self) -> usize {
        let lines = self.masked.lines().enumerate();
        lines
            .filter(|(index, line)| !line.trim().is_empty() && !self.is_test(*index))
            .count()
    }

    /// Whether the line at `index` (from 0) belongs to a test item.
    #[must_use]
    pub fn is_test(&self, index: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&index))
    }

    /// Every function with a body, outermost and nested ones alike.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        words(&self.masked)
            .filter(|(_, word)| *word == "fn")
            .filter_map(|(start, _)| self.function_at(start))
            .collect()
    }

    fn function_at(&self, start: usize) -> Option<Function> {
        let rest = &self.masked[start..];
        let (_, name) = words(rest).nth(1)?;
        // A function pointer type (`fn(u8) -> u8`) has no name before its parenthesis.
        if !rest[2..].trim_start().starts_with(name) {
            return None;
        }
        let body = body(rest)?;
        let code_lines = rest[body]
            .lines()
            .filter(|line| !line.trim().is_empty())
            .count();
        Some(Function {
            name: name.to_owned(),
            line: line_of(&self.masked, start) + 1,
            code_lines,
        })
    }
}

/// The words (identifiers and keywords) of `text` with their byte offsets.
pub fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text[from..].find(is_word)?;
        let length = text[start..]
            .find(|c| !is_word(c))
            .unwrap_or(text.len() - start);
        from = start + length;
        Some((start, &text[start..from]))
    })
}

/// What lies between the braces of the item that begins `text`; nothing when it ends with `;`.
fn body(text: &str) -> Option<Range<usize>> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => return None,
            '{' if depth == 0 => {
                let end = closing_brace(&text[at..]).map_or(text.len(), |length| at + length);
                return Some(at + 1..end);
            }
            _ => {}
        }
    }
    None
}

/// The offset of the brace that closes the one that begins `text`.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

fn find_test_items(masked: &str) -> Vec<Range<usize>> {
    let marks = masked.match_indices("#[cfg(test)]");
    marks
        .map(|(start, mark)| {
            let item = &masked[start + mark.len()..];
            let length = body(item).map_or_else(|| item.find(';'), |body| Some(body.end));
            let end = start + mark.len() + length.unwrap_or(item.len());
            line_of(masked, start)..line_of(masked, end) + 1
        })
        .collect()
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count()
}

/// The one pass over the characters.
struct Mask<'a> {
    rest: &'a str,
    out: String,
}

impl<'a> Mask<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            out: String::with_capacity(text.len()),
        }
    }

    fn run(mut self) -> String {
        while let Some(c) = self.rest.chars().next() {
            if self.rest.starts_with("//") {
                self.blank(self.rest.find('\n').unwrap_or(self.rest.len()), ' ');
            } else if self.rest.starts_with("/*") {
                self.blank(comment_length(self.rest), ' ');
            } else if let Some(length) =
                raw_string_length(self.rest).filter(|_| self.at_word_start())
            {
                self.blank(length, '"');
            } else if c == '"' {
                self.blank(string_length(self.rest), '"');
            } else if c == '\'' {
                self.blank(character_length(self.rest), '"');
            } else {
                self.keep(c);
            }
        }
        self.out
    }

    fn keep(&mut self, c: char) {
        self.out.push(c);
        self.rest = &self.rest[c.len_utf8()..];
    }

    fn blank(&mut self, length: usize, fill: char) {
        let (blanked, rest) = self.rest.split_at(length);
        self.out
            .extend(blanked.chars().map(|c| if c == '\n' { '\n' } else { fill }));
        self.rest = rest;
    }

    /// `r"` begins a raw string only where the `r` begins a word.
    fn at_word_start(&self) -> bool {
        !self
            .out
            .ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }
}

/// Block comments nest.
fn comment_length(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if rest.starts_with("*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string_length(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        text.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(['#', '"']))
    })?;
    let hashes = text[prefix.len()..]
        .chars()
        .take_while(|c| *c == '#')
        .count();
    let open = prefix.len() + hashes + 1;
    // `r#type` is an identifier, not a string.
    text[..open.min(text.len())].ends_with('"').then_some(())?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(
        text[open..]
            .find(&close)
            .map_or(text.len(), |at| open + at + close.len()),
    )
}

/// A character literal, or only the quote when it begins a lifetime.
fn character_length(text: &str) -> usize {
    let mut inside = text.char_indices().skip(1);
    match inside.next() {
        Some((_, '\\')) => {
            let after = inside
                .next()
                .map_or(text.len(), |(at, c)| at + c.len_utf8());
            text[after..]
                .find('\'')
                .map_or(text.len(), |at| after + at + 1)
        }
        Some((at, c)) if text[at + c.len_utf8()..].starts_with('\'') => at + c.len_utf8() + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_strings_but_keeps_lines() {
        let text =
            "let a = \"{ // no\"; // yes {\nlet b = '{'; /* { /* } */\n */ let c: &'static str;";
        let masked = Source::new(text).masked;
        assert_eq!(masked.lines().count(), 3);
        assert!(!masked.contains('{') && !masked.contains("yes"), "{masked}");
        assert!(
            masked.contains("let c: &") && masked.contains("static str;"),
            "{masked}"
        );
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes_and_raw_identifiers_are_none() {
        let source = Source::new("f(r#\"a \" { \"#); br\"}\"; let r#type = bar\"x\";");
        assert!(!source.masked.contains(['{', '}']), "{}", source.masked);
        assert!(source.masked.contains("let r#type"), "{}", source.masked);
    }

    #[test]
    fn counts_code_without_blanks_comments_and_test_items() {
        let text =
            "//! Head.\n\nfn a() {}\n// why\nfn b() {}\n#[cfg(test)]\nmod tests {\n fn c() {}\n}\n";
        assert_eq!(Source::new(text).code_lines(), 2);
        assert_eq!(
            Source::new("#[cfg(test)]\nmod tests;\nfn a() {}\n").code_lines(),
            1
        );
    }

    #[test]
    fn measures_bodies_of_functions_and_passes_over_pointers_and_declarations() {
        let text =
            "trait T { fn d(&self); }\nfn e(f: fn(u8) -> [u8; 2]) -> u8 {\n // why\n 1;\n\n 2\n}\n";
        let e = Function {
            name: "e".into(),
            line: 2,
            code_lines: 2,
        };
        assert_eq!(Source::new(text).functions(), [e]);
    }
}
