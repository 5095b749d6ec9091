//! What `perf script` says, as stacks and how often each was seen. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

/// How a frame of the kernel is marked, as in other tools' folded stacks.
pub(crate) const KERNEL: &str = "_[k]";

/// Stacks from the root to the leaf, and samples of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stacks(pub(crate) BTreeMap<Vec<String>, u64>);

impl Stacks {
    /// Reads samples: a line with the thread's name, then a line for each frame, the leaf first.
    pub(crate) fn fold(text: &str) -> Self {
        let mut stacks = Self::default();
        let mut stack: Vec<String> = Vec::new();
        let mut thread = None;
        for line in text.lines().chain([""]) {
            if line.starts_with(char::is_whitespace) {
                stack.push(frame(line.trim()));
                continue;
            }
            if let Some(thread) = thread.take() {
                stack.push(thread);
                stack.reverse();
                *stacks.0.entry(std::mem::take(&mut stack)).or_default() += 1;
            }
            thread = Some(line.trim().to_owned()).filter(|name| !name.is_empty());
        }
        stacks
    }

    /// All samples.
    pub(crate) fn samples(&self) -> u64 {
        self.0.values().sum()
    }

    /// One line for each stack, for other tools: frames with semicolons, then the samples.
    pub(crate) fn folded(&self) -> String {
        let mut text = String::new();
        for (stack, samples) in &self.0 {
            writeln!(text, "{} {samples}", stack.join(";")).expect("writing to a string");
        }
        text
    }
}

/// `7f31 name (file)` as the name alone, without a hash, marked if it is the kernel's.
fn frame(line: &str) -> String {
    let named = line.split_once(' ').map_or("", |(_, rest)| rest);
    let (name, file) = named.rsplit_once(" (").unwrap_or((named, ""));
    let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
    let name = name
        .rsplit_once("::h")
        .filter(|(_, hash)| hash.len() == 16 && hash.bytes().all(|it| it.is_ascii_hexdigit()))
        .map_or(name, |(name, _)| name);
    let mark = match file.starts_with("[kernel") || file.starts_with("[guest.kernel") {
        true => KERNEL,
        false => "",
    };
    let name = name.replace(';', ":");
    match name.as_str() {
        "[unknown]" | "" => match file.trim_end_matches(')').rsplit('/').next() {
            None | Some("" | "[unknown]") => "[unknown]".to_owned(),
            Some(file) => format!("[{}]", file.trim_matches(['[', ']'])),
        },
        name => format!("{name}{mark}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "leno-proxy \n\
        \tffffffff81e28ffb sock_recvmsg ([kernel.kallsyms])\n\
        \t         12fc47d proxy::request::serve::h0123456789abcdef (/opt/leno-proxy)\n\
        \t           891f5 [unknown] (/usr/lib/libc.so.6)\n\n\
        leno-proxy \n\
        \t         12fc47d proxy::request::serve (/opt/leno-proxy)\n\
        \t           891f5 [unknown] (/usr/lib/libc.so.6)\n\n\
        leno-proxy \n\
        \t         12fc47d proxy::request::serve (/opt/leno-proxy)\n\
        \t           891f5 [unknown] (/usr/lib/libc.so.6)\n";

    #[test]
    fn samples_are_counted_by_their_stack_from_the_root() {
        let stacks = Stacks::fold(SCRIPT);
        assert_eq!(stacks.samples(), 3);
        assert_eq!(
            stacks.folded(),
            "leno-proxy;[libc.so.6];proxy::request::serve 2\n\
             leno-proxy;[libc.so.6];proxy::request::serve;sock_recvmsg_[k] 1\n"
        );
    }

    #[test]
    fn what_is_not_a_sample_gives_no_stack() {
        assert_eq!(Stacks::fold(""), Stacks::default());
        assert_eq!(Stacks::fold("\n\n").samples(), 0);
    }
}
