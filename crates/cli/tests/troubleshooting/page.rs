//! The page about symptoms: its examples, and whether programs say what it says. Figures, dates,
//! addresses and places of files may be others; words may not.

const PAGE: &str = include_str!("../../../../docs/troubleshooting.md");

/// A command, and what the page says that it says.
pub(crate) struct Example {
    pub(crate) command: String,
    pub(crate) said: Vec<String>,
}

/// Titles of sections that have examples.
pub(crate) fn titles() -> Vec<&'static str> {
    let sections = PAGE.split("\n## ").skip(1);
    let with = sections.filter(|section| section.contains("```console\n"));
    with.map(|section| section.lines().next().unwrap())
        .collect()
}

pub(crate) fn examples(title: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let blocks = section(title).split("```console\n").skip(1);
    for line in blocks.flat_map(|block| block.split("\n```").next().unwrap().lines()) {
        match line.strip_prefix("# ") {
            Some(command) => examples.push(Example {
                command: command.to_owned(),
                said: Vec::new(),
            }),
            None => examples.last_mut().unwrap().said.push(line.to_owned()),
        }
    }
    examples
}

/// What is quoted first in each row of a section's table.
pub(crate) fn rows(title: &str) -> Vec<&'static str> {
    let rows = section(title).lines();
    let rows = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.collect()
}

fn section(title: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n## {title}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

impl Example {
    /// What is said before the line that begins so, and from there on.
    pub(crate) fn split(&self, start: &str) -> (Self, Self) {
        let place = self.said.iter().position(|line| line.starts_with(start));
        let (before, after) = self.said.split_at(place.unwrap());
        let part = |said: &[String]| Self {
            command: self.command.clone(),
            said: said.to_vec(),
        };
        (part(before), part(after))
    }

    /// Every line of the page is among those that were said.
    #[track_caller]
    pub(crate) fn check(&self, said: &str) {
        if let Some(missing) = self.missing(said) {
            panic!("`{}` does not say\n{missing}\nbut\n{said}", self.command);
        }
    }

    /// The first line of the page that was not said.
    pub(crate) fn missing(&self, said: &str) -> Option<&str> {
        let lines = self.said.iter().map(String::as_str);
        let mut lines = lines.filter(|line| *line != "…");
        lines.find(|line| !said.lines().any(|other| is_alike(line, other)))
    }
}

/// `…` at the end stands for what is too long for the page.
fn is_alike(wanted: &str, said: &str) -> bool {
    match wanted.strip_suffix('…') {
        Some(start) => shape(said).starts_with(shape(start).trim_end()),
        None => shape(said) == shape(wanted),
    }
}

fn shape(line: &str) -> String {
    let words = line.split_whitespace().map(word);
    words.collect::<Vec<_>>().join(" ")
}

/// `#` for what another machine, mesh or moment has otherwise.
fn word(word: &str) -> String {
    let bare = word.trim_end_matches([',', ':']);
    let is_place = bare.contains(".yaml:") || bare.starts_with("{\"event\":");
    let is_address = |text: &str| {
        let ip = text.trim_matches(['[', ']']);
        ip.parse::<std::net::IpAddr>().is_ok() || text.parse::<std::net::SocketAddr>().is_ok()
    };
    let is_serial = bare.len() >= 8 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    let starts = bare.starts_with(|first: char| first.is_ascii_digit());
    let listener = bare.rsplit_once('|').filter(|(_, at)| is_address(at));
    match listener {
        Some((start, _)) => format!("{start}|#"),
        None if is_place || is_address(bare) || is_serial || starts => "#".to_owned(),
        None => word.to_owned(),
    }
}

#[test]
fn words_must_be_the_same_and_figures_need_not() {
    for (wanted, said, alike) in [
        ("a-0  no  10.91.8.2  4s", "a-0 no 10.2.0.1 12s", true),
        ("a-0  no  10.91.8.2  4s", "a-0 yes 10.2.0.1 12s", false),
        ("curl: (6) no", "curl: (7) no", false),
        ("inbound|10.1.1.2:80  *", "inbound|10.3.3.4:80  *", true),
        (
            "by the rule at /a/m.yaml:3:1",
            "by the rule at /b/m.yaml:9:1",
            true,
        ),
        ("missing  neither …", "missing neither this nor that", true),
    ] {
        assert_eq!(is_alike(wanted, said), alike, "{wanted} {said}");
    }
}
